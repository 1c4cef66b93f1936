-- Gives the name of a worker to one worker at a time, and keeps what it remembers.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  the name that the user has given
-- ARGV[2]  the worker
-- ARGV[3]  milliseconds for which it has the name; 0: it gives the name back
-- ARGV[4]  1: it brings a state
-- ARGV[5]  the state; '' drops it
--
-- HEAD:named  hash; NAME:worker, NAME:until (Unix milliseconds) and NAME:state
--
-- Returns 0 and the state; or, and then nothing is changed, the milliseconds for which another
-- worker still has the name.

local key, name = KEYS[1] .. ':named', ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HMGET', key, name .. ':worker', name .. ':until')
if found[1] and found[1] ~= ARGV[2] and tonumber(found[2]) > now then
  return {tonumber(found[2]) - now, ''}
end
redis.call('HSET', key, name .. ':worker', ARGV[2], name .. ':until', now + ARGV[3])
if ARGV[4] == '1' then redis.call('HSET', key, name .. ':state', ARGV[5]) end
return {0, redis.call('HGET', key, name .. ':state') or ''}
