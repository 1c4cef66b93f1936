-- Asks the running workers to stop.
--
-- KEYS[1]  the head of the job
--
-- Returns their number.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local there = redis.call('ZCOUNT', KEYS[1] .. ':workers', '(' .. now, '+inf')
if there > 0 then redis.call('HINCRBY', KEYS[1], 'stops', 1) end
return there
