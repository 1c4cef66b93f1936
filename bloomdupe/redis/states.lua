-- Reads the states of some slots, and changes nothing. Begins with queue.lua.
--
-- ARGV[1]  the cursor: 0, or the cursor that the last call has returned
-- ARGV[2]  number of slots, about
--
-- Returns the next cursor (0 at the end); and of each slot its name, and its state.

local found = redis.call('HSCAN', about_key, ARGV[1], 'COUNT', ARGV[2])
return {found[1], unpack(found[2])}
