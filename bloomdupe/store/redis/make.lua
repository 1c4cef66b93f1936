-- Makes the head of a crawl, if there is none; returns its fields. First it calls all
-- that a commit calls: a user without the rights is refused here, and not half-way.
-- KEYS: head, a key that is not used. ARGV: magic, format, partitions.
for _, one in ipairs({
  { 'HSET', 'a', '0' }, { 'HINCRBY', 'a', '1' }, { 'HDEL', 'a' },
  { 'DEL' }, { 'ZADD', '0', 'a' }, { 'ZREMRANGEBYLEX', '-', '+' },
  { 'RPUSH', 'a' }, { 'LRANGE', '0', '0' }, { 'LTRIM', '1', '0' },
  { 'XADD', '*', 'a', '0' }, { 'DEL' },
}) do
  redis.call(one[1], KEYS[2], unpack(one, 2))
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'magic', ARGV[1], 'format', ARGV[2],
    'partitions', ARGV[3], 'begun', 0, 'ended', 0)
end
return redis.call('HGETALL', KEYS[1])
