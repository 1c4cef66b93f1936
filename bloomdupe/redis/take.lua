-- Makes a worker the owner of a partition, if nobody is, or the owner's lease has run out,
-- or the worker itself is and does not know it. Begins with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is the owner
--
-- Returns the fence, the number that tells this owner from all before it; 0 if another
-- worker is the owner. What was handed out to the last owner waits again.

local owner = redis.call('HMGET', state_key, 'worker', 'until')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local others = owner[1] and owner[1] ~= '' and owner[1] ~= ARGV[1]
if others and tonumber(owner[2]) > now then return 0 end
local fence = redis.call('HINCRBY', state_key, 'fence', 1)
redis.call('HSET', state_key, 'worker', ARGV[1], 'until', now + ARGV[2], 'step', 0,
  'handed', '')
put_back()
return fence
