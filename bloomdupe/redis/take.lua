-- Makes a worker the owner of a partition, if nobody is, or the owner's lease has run out,
-- or the worker itself is and does not know it. Begins with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is the owner
-- ARGV[3]  its fencing token, drawn at random
-- ARGV[4]  1: also if another worker is the owner, and its lease has run out
--
-- Returns 1, or 0 if another worker is the owner; and for how many milliseconds there has
-- been no owner, -1 if there was none before. What was handed out to the last owner waits
-- again, and that owner's token is worth nothing any more.

local owner = redis.call('HMGET', state_key, 'worker', 'until')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local others = owner[1] and owner[1] ~= '' and owner[1] ~= ARGV[1]
if others and (ARGV[4] ~= '1' or tonumber(owner[2]) > now) then return {0, 0} end
local without = owner[2] and math.max(0, now - owner[2]) or -1
redis.call('HSET', state_key, 'worker', ARGV[1], 'until', now + ARGV[2],
  'fence', ARGV[3], 'step', 0, 'handed', '')
put_back()
return {1, without}
