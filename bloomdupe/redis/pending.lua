-- Reads the slots or the pending requests of a partition, and changes nothing. Begins with
-- queue.lua.
--
-- ARGV[1]  number of elements to skip
-- ARGV[2]  highest number of elements to read
-- ARGV[3]  the slot to read requests of; without it, names of slots are read
--
-- Returns names of slots; or, for each request, in the order of their turns, its number with
-- its payload, and the priority negated.

local first, last = ARGV[1], ARGV[1] + ARGV[2] - 1
if ARGV[3] then
  return redis.call('ZRANGE', queue_key .. ARGV[3], first, last, 'WITHSCORES')
end
return redis.call('ZRANGE', slots_key, first, last)
