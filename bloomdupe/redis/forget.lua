-- Deletes entries of the output that were collected. Begins with queue.lua.
--
-- ARGV[1]  number of an entry; the entries before it are deleted. It stays itself: as long
--          as it exists, Redis has not lost the collected output
-- ARGV[2]  highest number of entries, about
--
-- Returns the number of deleted entries; 0 if no entries are left.

local output_key = KEYS[1] .. ':output'
local gone = redis.call('XTRIM', output_key, 'MINID', '~', ARGV[1], 'LIMIT', ARGV[2])
if gone == 0 then gone = redis.call('XTRIM', output_key, 'MINID', '=', ARGV[1]) end
if gone > 0 then redis.call('HSET', state_key, 'deleted', ARGV[1]) end
return gone
