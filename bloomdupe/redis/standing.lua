-- Says how a partition stands, and changes nothing. Begins with queue.lua.
--
-- Returns: requests that were ever taken in, slots with some that wait, requests handed
-- out, requests that are done, name of the owner, milliseconds that are left of its lease,
-- entries of the output that were not collected and deleted; the fields and values of the
-- filter's head; how many requests are set aside, and the reasons of some of them.

local found = redis.call('HMGET', state_key, 'pushed', 'done', 'worker', 'until', 'deleted')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local output_key = KEYS[1] .. ':output'
local entries = redis.call('XLEN', output_key)
if found[5] then
  -- The last one that was collected stays there.
  entries = entries - #redis.call('XRANGE', output_key, found[5], found[5])
end
local aside, reasons = redis.call('HSCAN', aside_key, 0, 'COUNT', 10)[2], {}
for i = 2, #aside, 2 do reasons[#reasons + 1] = aside[i] end
return {
  tonumber(found[1] or 0), redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[2] or 0), found[3] or '',
  tonumber(found[4] or now) - now, entries, redis.call('HGETALL', KEYS[1]),
  redis.call('HLEN', aside_key), reasons
}
