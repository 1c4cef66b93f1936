-- Counts the requests in a partition. Begins with queue.lua.
--
-- Returns the numbers of: requests ever accepted and not removed by hand, slots with pending requests, requests in
-- progress, requests that are done; the name of the owner; and the numbers of requests in
-- progress that the owner has left, and of those that cannot be restored.

local found = redis.call('HMGET', state_key, 'done', 'worker')
return {
  accepted(), redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[1] or 0), found[2] or '',
  redis.call('HLEN', left_key), redis.call('HLEN', aside_key)
}
