-- Stores news of a worker for the other workers, such as cookies.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker
-- then for each piece of news its subject, such as the digest of a cookie, and its text
--
-- HEAD:news        hash; from the subject to the length of the worker's name (2 bytes),
--                  the name, and the text; `changes`, the number of changes
-- HEAD:news:order  sorted set of the subjects, by the number of their last change

local news, order = KEYS[1] .. ':news', KEYS[1] .. ':news:order'
local worker = struct.pack('<H', #ARGV[1]) .. ARGV[1]
for i = 2, #ARGV, 2 do
  redis.call('HSET', news, ARGV[i], worker .. ARGV[i + 1])
  redis.call('ZADD', order, redis.call('HINCRBY', news, 'changes', 1), ARGV[i])
end
