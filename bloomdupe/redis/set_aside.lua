-- Keeps the reason why the owner cannot begin with a request that it was handed out. Begins
-- with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  its fencing token
-- ARGV[3]  number of the request
-- ARGV[4]  which request that is, and the reason
--
-- Returns 1, or 0 if it is not the owner any more. The request stays handed out. The reason
-- stays until the request is done, whoever does it.

local owner = redis.call('HMGET', state_key, 'worker', 'fence')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] then return 0 end
if redis.call('HEXISTS', leased_key, ARGV[3]) == 1 then
  redis.call('HSET', aside_key, ARGV[3], ARGV[4])
end
return 1
