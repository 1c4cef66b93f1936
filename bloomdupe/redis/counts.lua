-- Counts the requests in a partition. Begins with queue.lua.
--
-- Returns the numbers of: requests ever accepted and not removed by hand, slots with pending
-- requests, requests in progress, requests that are done; the name of the owner; the numbers
-- of requests in progress that the owner has left, and of those that cannot be restored; the
-- number of requests scheduled for later, and the milliseconds until the first of them is due.

local found = redis.call('HMGET', state_key, 'done', 'worker')
local pushed, later, due = accepted()
return {
  pushed, redis.call('ZCARD', slots_key),
  redis.call('HLEN', leased_key), tonumber(found[1] or 0), found[2] or '',
  redis.call('HLEN', left_key), redis.call('HLEN', aside_key), later, due
}
