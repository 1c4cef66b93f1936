-- Reads what waits in a partition, and takes nothing out. Begins with queue.lua.
--
-- ARGV[1]  how many to leave out
-- ARGV[2]  how many to read at most
-- ARGV[3]  the slot whose requests are read; without it, the names of slots are
--
-- Returns names of slots; or, for each request, in the order of their turns, its number with
-- its payload, and the priority negated.

local first, last = ARGV[1], ARGV[1] + ARGV[2] - 1
if ARGV[3] then
  return redis.call('ZRANGE', queue_key .. ARGV[3], first, last, 'WITHSCORES')
end
return redis.call('ZRANGE', slots_key, first, last)
