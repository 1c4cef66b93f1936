-- Reads some of the failed requests, and changes nothing. Begins with queue.lua.
--
-- ARGV[1]  the cursor: 0, or the cursor that the last call has returned
-- ARGV[2]  number of requests, about
--
-- Returns the next cursor (0 at the end); and of each request its key, and its entry (see
-- failed.lua). A request that is there all the time is returned at least once.

local found = redis.call('HSCAN', failed_key, ARGV[1], 'COUNT', ARGV[2])
return {found[1], unpack(found[2])}
