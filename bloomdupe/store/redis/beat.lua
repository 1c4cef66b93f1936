-- A heartbeat of a worker, if it is known; or a callback that has blocked it for so long.
-- KEYS: steps, beats, head. ARGV: its token, seconds or 0. Returns the seconds for which a
-- callback may block a worker, as far as it is known.
local known = tonumber(redis.call('HGET', KEYS[3], 'block') or '0')
local seconds = tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[3]) == 1 and seconds > known then
  redis.call('HSET', KEYS[3], 'block', ARGV[2])
  return seconds
end
if seconds == 0 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
end
return known
