-- Registers a worker as running, and counts the running workers and their work.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is registered; 0: it ends
-- ARGV[3]  number of imports that it knows
-- ARGV[4]  1 if it stays when nothing is pending
-- ARGV[5]  the reason why it ends
-- ARGV[6]  number of partitions that it owns
-- ARGV[7]  number of pending requests and requests in progress there
--
-- A run begins with a worker when no other one is there, and ends with the last of them:
--
-- HEAD:runs  hash from the number of a run to a JSON list: its number; Unix time of its
--            beginning, and of its end, or null; and the reason of the end, or 'open'
--
-- HEAD:workers  sorted set of the running workers; the score is the time until which each is
--               registered
-- HEAD:loads    hash from a worker to the last two arguments
--
-- Returns the number of running workers; -1 if an import is running, or was since then. How
-- often the workers were asked to stop. The sums of the last two arguments of all of them. And
-- the rules that keep requests out, or nothing.

local MOST_RUNS = 500
local workers, runs = KEYS[1] .. ':workers', KEYS[1] .. ':runs'
local loads = KEYS[1] .. ':loads'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now)
local there = redis.call('ZCARD', workers)
if ARGV[2] == '0' then
  local number = redis.call('HGET', KEYS[1], 'runs')
  if redis.call('ZREM', workers, ARGV[1]) == 1 and there == 1 and number then
    local run = cjson.decode(redis.call('HGET', runs, number))
    run[3], run[4] = now / 1000, ARGV[5]
    redis.call('HSET', runs, number, cjson.encode(run))
  end
else
  local found = redis.call('HMGET', KEYS[1], 'imports', 'importing')
  if found[2] or (found[1] or '0') ~= ARGV[3] then return {-1, 0, 0, 0, ''} end
  -- A Redis that was started without its data gets no head that is made of these alone.
  local is_head = redis.call('EXISTS', KEYS[1]) == 1
  if there == 0 and is_head then
    local number = redis.call('HINCRBY', KEYS[1], 'runs', 1)
    local run = {number, now / 1000, cjson.null, 'open'}
    redis.call('HSET', runs, number, cjson.encode(run))
    redis.call('HDEL', runs, number - MOST_RUNS)
  end
  redis.call('ZADD', workers, now + ARGV[2], ARGV[1])
  redis.call('HSET', loads, ARGV[1], ARGV[6] .. ' ' .. ARGV[7])
  if ARGV[4] == '1' and is_head then
    redis.call('HSET', KEYS[1], 'stays_until', now + ARGV[2])
  end
end
local count, owned, work = redis.call('ZCARD', workers), 0, 0
local found = redis.call('HGETALL', loads)
for i = 1, #found, 2 do
  if redis.call('ZSCORE', workers, found[i]) then
    local one, other = string.match(found[i + 1], '(%d+) (%d+)')
    owned, work = owned + one, work + other
  else
    redis.call('HDEL', loads, found[i])
  end
end
local asked = redis.call('HMGET', KEYS[1], 'stops', 'blocked')
return {count, tonumber(asked[1] or 0), owned, work, asked[2] or ''}
