-- Deletes the output before an entry, and notes that; repeatable. Returns the number of entries.
-- KEYS: output, head. ARGV: the entry. A full Redis lets a script write once it has deleted.
local gone = redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
redis.call('HSET', KEYS[2], 'forgotten', ARGV[1])
return gone
