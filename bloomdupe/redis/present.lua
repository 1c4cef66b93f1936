-- Registers a worker as running, and counts the running workers.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is registered; 0: it ends
-- ARGV[3]  number of imports that it knows
-- ARGV[4]  1 if it stays when nothing is pending
--
-- Returns the number of running workers; -1 if an import is running, or was since then. And
-- how often the workers were asked to stop.

local workers = KEYS[1] .. ':workers'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now)
if ARGV[2] == '0' then
  redis.call('ZREM', workers, ARGV[1])
else
  local found = redis.call('HMGET', KEYS[1], 'imports', 'importing')
  if found[2] or (found[1] or '0') ~= ARGV[3] then return {-1, 0} end
  redis.call('ZADD', workers, now + ARGV[2], ARGV[1])
  if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'stays_until', now + ARGV[2]) end
end
return {redis.call('ZCARD', workers), tonumber(redis.call('HGET', KEYS[1], 'stops') or 0)}
