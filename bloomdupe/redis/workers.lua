-- Reads the names of the running workers, and changes nothing.
--
-- KEYS[1]  the head of the job
--
-- Returns the names of the workers that have registered within their leases.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1] .. ':workers', '(' .. now, '+inf')
