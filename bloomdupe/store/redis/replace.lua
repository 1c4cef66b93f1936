-- Replaces the rules of a crawl, unless they are others than expected; repeatable.
-- KEYS: rules. ARGV: the rules that are expected, the new rules. None are "{}".
-- A full Redis lets a script write once it has deleted: a crawl that waits for room must stop.
local now = redis.call('GET', KEYS[1]) or '{}'
if now ~= ARGV[1] and now ~= ARGV[2] then return 0 end
redis.call('UNLINK', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
