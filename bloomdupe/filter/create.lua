-- Creates the head of a filter unless it exists, and returns its fields.
--
-- KEYS[1]  the head
-- ARGV     its fields and values

if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], unpack(ARGV))
end
return redis.call('HGETALL', KEYS[1])
