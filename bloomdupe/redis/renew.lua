-- Renews the lease of the owner. Begins with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  its fencing token
-- ARGV[3]  milliseconds; 0 gives the partition back, with its requests in progress
-- ARGV[4]  1: none of these was begun, so the states of its slots are up to date
--
-- Returns the number of pending requests and requests in progress, or -1 if the worker is not
-- the owner any more.

local owner = redis.call('HMGET', state_key, 'worker', 'fence')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] then return -1 end
redis.call('HSET', state_key, 'until', now() + ARGV[3])
if ARGV[3] == '0' then
  redis.call('HSET', state_key, 'worker', '')
  if ARGV[4] == '1' then redis.call('HSET', state_key, 'idle', ARGV[2]) end
  put_back()
end
return work()
