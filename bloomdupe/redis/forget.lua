-- Deletes what was put out and is kept elsewhere. Begins with queue.lua.
--
-- ARGV[1]  number of an entry; those before it go. It stays itself: as long as it is there,
--          Redis has not lost what was collected
-- ARGV[2]  how many at most, about
--
-- Returns how many went; 0: there are no more.

local output_key = KEYS[1] .. ':output'
local gone = redis.call('XTRIM', output_key, 'MINID', '~', ARGV[1], 'LIMIT', ARGV[2])
if gone == 0 then gone = redis.call('XTRIM', output_key, 'MINID', '=', ARGV[1]) end
if gone > 0 then redis.call('HSET', state_key, 'deleted', ARGV[1]) end
return gone
