-- Reads the state of a partition, and changes nothing. Begins with queue.lua.
--
-- ARGV[1]  1: only the counts
--
-- Returns the counts. These are the numbers of: requests ever accepted and not removed by hand,
-- slots with pending requests, requests in progress, requests that are done; the name of the
-- owner; the numbers of requests in progress that the owner has left, and of requests that
-- cannot be restored; the number of requests scheduled for later, and the milliseconds until
-- the first of them is due.
--
-- After the counts comes the rest, unless only they are asked for: the milliseconds that are
-- left of the owner's lease; the number of entries of the output that are not collected and
-- deleted yet; the fields and values of the filter's head; the reasons why some requests cannot
-- be restored; the number of failed requests, the number of changes to them, and of those that
-- were removed, because there were too many; the fields and values of the counts of settled
-- requests.

local found = redis.call('HMGET', state_key, 'done', 'worker', 'until', 'deleted', 'failing',
  'forgotten')
local pushed, later, due = accepted()
local answer = {
  pushed, redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[1] or 0), found[2] or '',
  redis.call('HLEN', left_key), redis.call('HLEN', aside_key), later, due
}
if ARGV[1] == '1' then return answer end

local output_key = KEYS[1] .. ':output'
local entries = redis.call('XLEN', output_key)
if found[4] then
  -- The last collected entry is not deleted.
  entries = entries - #redis.call('XRANGE', output_key, found[4], found[4])
end
local aside, reasons = redis.call('HSCAN', aside_key, 0, 'COUNT', 10)[2], {}
for i = 2, #aside, 2 do reasons[#reasons + 1] = aside[i] end
for _, each in ipairs({
  found[3] and found[3] - now() or 0, entries, redis.call('HGETALL', KEYS[1]), reasons,
  redis.call('ZCARD', failures_key), tonumber(found[5] or 0), tonumber(found[6] or 0),
  redis.call('HGETALL', totals_key)
}) do
  answer[#answer + 1] = each
end
return answer
