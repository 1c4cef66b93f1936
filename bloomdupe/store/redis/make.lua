-- Makes the head of a crawl, if there is none; returns its fields.
-- KEYS: head. ARGV: magic, format, partitions.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'magic', ARGV[1], 'format', ARGV[2],
    'partitions', ARGV[3], 'begun', 0, 'ended', 0)
end
return redis.call('HGETALL', KEYS[1])
