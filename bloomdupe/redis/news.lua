-- Reads the news of other workers. For the keys see keep_news.lua.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  name of the worker that asks
-- ARGV[2]  number of the last change that it knows
-- ARGV[3]  highest number of changes
--
-- Returns the number of the last change that was read, and the texts.

local news, order = KEYS[1] .. ':news', KEYS[1] .. ':news:order'
local found = redis.call('ZRANGEBYSCORE', order, '(' .. ARGV[2], '+inf', 'WITHSCORES',
  'LIMIT', 0, ARGV[3])
local answer = {found[#found] or ARGV[2]}
for i = 1, #found, 2 do
  local value = redis.call('HGET', news, found[i])
  local length, first = struct.unpack('<H', value)
  local worker = string.sub(value, first, first + length - 1)
  if worker ~= ARGV[1] then answer[#answer + 1] = string.sub(value, first + length) end
end
return answer
