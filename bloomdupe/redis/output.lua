-- Reads entries of the output. Begins with queue.lua.
--
-- ARGV[1]  number of the entry after which to begin; 0-0: at the beginning
-- ARGV[2]  highest number of entries
--
-- Returns the number of the entry before which all entries were deleted, or ''; whether the
-- entry ARGV[1] exists; and the entries after it, oldest first.

local output_key = KEYS[1] .. ':output'
return {
  redis.call('HGET', state_key, 'deleted') or '',
  #redis.call('XRANGE', output_key, ARGV[1], ARGV[1]),
  redis.call('XRANGE', output_key, '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
}
