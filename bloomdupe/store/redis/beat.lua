-- A heartbeat of a worker, if it is known. KEYS: steps, beats. ARGV: its token.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
