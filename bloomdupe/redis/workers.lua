-- Reads the names of the running workers, and changes nothing.
--
-- KEYS[1]  the head of the job
--
-- Returns 1 if one of the workers stays when nothing is pending, else 0; the present Unix
-- milliseconds; then the names of the workers that have registered within their leases.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local names = redis.call('ZRANGEBYSCORE', KEYS[1] .. ':workers', '(' .. now, '+inf')
local stays = tonumber(redis.call('HGET', KEYS[1], 'stays_until') or 0) > now
return {#names > 0 and stays and 1 or 0, now, unpack(names)}
