-- A heartbeat of a worker that commits nothing, unless the crawl is gone.
-- KEYS: head, heartbeats. ARGV: token.
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
  redis.call('HSET', KEYS[1], 'alive', redis.call('TIME')[1])
end
