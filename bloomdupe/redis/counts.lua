-- Counts what is in a partition. Begins with queue.lua.
--
-- Returns: requests that were ever taken in, slots with some that wait, requests handed
-- out, requests that are done, name of the owner, requests handed out that it has left, and how
-- many of these cannot be restored.

local found = redis.call('HMGET', state_key, 'pushed', 'done', 'worker')
return {
  tonumber(found[1] or 0), redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[2] or 0), found[3] or '',
  redis.call('HLEN', left_key), redis.call('HLEN', aside_key)
}
