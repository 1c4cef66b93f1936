-- Replaces the rules that keep requests out, unless another process has changed them.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  the rules as they were read, or nothing if there were none
-- ARGV[2]  the new rules
--
-- Returns 1, or 0 if they have changed meanwhile.

if (redis.call('HGET', KEYS[1], 'blocked') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'blocked', ARGV[2])
return 1
