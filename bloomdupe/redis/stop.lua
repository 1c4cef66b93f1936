-- Asks the running workers to stop. Begins with workers.lua.
--
-- Returns their number.

if count > 0 then redis.call('HINCRBY', KEYS[1], 'stops', 1) end
return count
