-- Says that a worker is there, and counts those that are.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is there; 0: it goes
--
-- Returns how many there are.

local workers = KEYS[1] .. ':workers'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now)
if ARGV[2] == '0' then
  redis.call('ZREM', workers, ARGV[1])
else
  redis.call('ZADD', workers, now + ARGV[2], ARGV[1])
end
return redis.call('ZCARD', workers)
