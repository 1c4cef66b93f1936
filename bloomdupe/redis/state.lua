-- Reads the state of a partition, and changes nothing. Begins with queue.lua.
--
-- Returns the numbers of: requests ever accepted and not removed by hand, slots with pending
-- requests, requests in progress, requests that are done; the name of the owner, and the
-- milliseconds that are left of its lease; the number of entries of the output that are not
-- collected and deleted yet; the fields and values of the filter's head; the number of
-- requests that cannot be restored, and the reasons of some of them; the numbers of changes to
-- the failed requests, and of those that were removed, because there were too many; the fields
-- and values of the counts; the number of requests scheduled for later, and the milliseconds
-- until the first of them is due.

local found = redis.call('HMGET', state_key, 'done', 'worker', 'until', 'deleted', 'failing',
  'forgotten')
local output_key = KEYS[1] .. ':output'
local entries = redis.call('XLEN', output_key)
if found[4] then
  -- The last collected entry is not deleted.
  entries = entries - #redis.call('XRANGE', output_key, found[4], found[4])
end
local aside, reasons = redis.call('HSCAN', aside_key, 0, 'COUNT', 10)[2], {}
for i = 2, #aside, 2 do reasons[#reasons + 1] = aside[i] end
local pushed, later, due = accepted()
return {
  pushed, redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[1] or 0), found[2] or '',
  found[3] and found[3] - now() or 0, entries, redis.call('HGETALL', KEYS[1]),
  redis.call('HLEN', aside_key), reasons, tonumber(found[5] or 0), tonumber(found[6] or 0),
  redis.call('HGETALL', totals_key), later, due
}
