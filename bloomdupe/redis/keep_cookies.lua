-- Stores cookies that a worker has received or removed.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker
-- then for each cookie its digest, and the packed cookie
--
-- HEAD:cookies        hash; from the digest to the length of the worker's name (2 bytes),
--                     the name, and the packed cookie; `changes`, the number of changes
-- HEAD:cookies:order  sorted set of the digests, by the number of their last change

local cookies, order = KEYS[1] .. ':cookies', KEYS[1] .. ':cookies:order'
local worker = struct.pack('<H', #ARGV[1]) .. ARGV[1]
for i = 2, #ARGV, 2 do
  redis.call('HSET', cookies, ARGV[i], worker .. ARGV[i + 1])
  redis.call('ZADD', order, redis.call('HINCRBY', cookies, 'changes', 1), ARGV[i])
end
