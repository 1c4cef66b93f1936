-- Begins to remove a crawl, unless workers are running. Begins with workers.lua.
--
-- From now on present.lua refuses all workers, and a removal that was interrupted may begin
-- again. It makes room, so it may happen though the memory of Redis is full.
--
-- Returns the number of running workers.

if count == 0 then redis.call('HDEL', KEYS[1], 'born') end
return count
