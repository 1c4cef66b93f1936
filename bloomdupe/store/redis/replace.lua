-- Replaces the rules of a crawl, unless they are others than expected; repeatable.
-- KEYS: rules. ARGV: the rules that are expected, the new rules. None are "{}".
local now = redis.call('GET', KEYS[1]) or '{}'
if now ~= ARGV[1] and now ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
