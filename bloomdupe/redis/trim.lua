-- Removes the oldest failed requests. Begins with queue.lua and failed.lua.
--
-- ARGV[1]  the number that stays
--
-- The owner of the partition still knows their keys, which is harmless.

trim_failures(ARGV[1])
