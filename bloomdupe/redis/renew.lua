-- Renews the lease of the owner. Begins with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  its fencing token
-- ARGV[3]  milliseconds; 0 gives the partition back, with its requests in progress
--
-- Returns 1, or 0 if the worker is not the owner any more.

local owner = redis.call('HMGET', state_key, 'worker', 'fence')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', state_key, 'until', now + ARGV[3])
if ARGV[3] == '0' then
  redis.call('HSET', state_key, 'worker', '')
  put_back()
end
return 1
