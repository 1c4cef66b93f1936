-- Counts the requests of a partition, and changes nothing. Begins with queue.lua.
--
-- Returns the numbers of: requests ever accepted and not removed by hand, slots with pending
-- requests, requests in progress, requests that are done, failed requests, keys in the filter,
-- and requests scheduled for later; and the fields and values of the counts of settled
-- requests.

local keys = 0
for number = 0, (redis.call('HGET', KEYS[1], 'layers') or 0) - 1 do
  keys = keys + (redis.call('HGET', KEYS[1], 'keys:' .. number) or 0)
end
local pushed, later = accepted()
return {
  pushed, redis.call('ZCARD', slots_key), redis.call('HLEN', leased_key),
  tonumber(redis.call('HGET', state_key, 'done') or 0), redis.call('ZCARD', failures_key),
  keys, later, redis.call('HGETALL', totals_key)
}
