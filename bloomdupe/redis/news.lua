-- Reads the news of other workers. For the keys see keep_news.lua.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  the kind of the news
-- ARGV[2]  name of the worker that asks
-- ARGV[3]  number of the last change that it knows
-- ARGV[4]  highest number of changes
--
-- Returns the number of the last change that was read, and the texts.

local news, order = KEYS[1] .. ':' .. ARGV[1], KEYS[1] .. ':' .. ARGV[1] .. ':order'
local found = redis.call('ZRANGEBYSCORE', order, '(' .. ARGV[3], '+inf', 'WITHSCORES',
  'LIMIT', 0, ARGV[4])
local answer = {found[#found] or ARGV[3]}
for i = 1, #found, 2 do
  local value = redis.call('HGET', news, found[i])
  local length, first = struct.unpack('<H', value)
  local worker = string.sub(value, first, first + length - 1)
  if worker ~= ARGV[2] then answer[#answer + 1] = string.sub(value, first + length) end
end
return answer
