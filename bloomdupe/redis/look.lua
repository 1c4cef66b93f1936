-- Gives the turn to look at all partitions to one worker at a time, and passes on the last
-- look.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  milliseconds until the next turn
-- ARGV[2]  the look of the caller, which has had the turn; or nothing
-- ARGV[3]  its time, in Unix milliseconds
-- then the times of earlier looks that are not needed any more
--
-- HEAD:history  sorted set of looks, by their times
--
-- Returns 1 if the caller has the turn now; Redis' Unix milliseconds; the last look, or
-- nothing; and the number of the run (see present.lua), or 0.

local head, history = KEYS[1], KEYS[1] .. ':history'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', head) == 0 then return {0, now, '', 0} end
if ARGV[2] ~= '' then
  redis.call('HSET', head, 'look', ARGV[2])
  for i = 4, #ARGV do redis.call('ZREMRANGEBYSCORE', history, ARGV[i], ARGV[i]) end
  redis.call('ZADD', history, ARGV[3], ARGV[2])
end
local found = redis.call('HMGET', head, 'look', 'next_look', 'runs')
local turn = tonumber(found[2] or 0) <= now
if turn then redis.call('HSET', head, 'next_look', now + ARGV[1]) end
return {turn and 1 or 0, now, found[1] or '', tonumber(found[3] or 0)}
