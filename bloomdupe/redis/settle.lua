-- Says that requests are done, and keeps what they have put out. Begins with queue.lua and
-- owner.lua.
--
-- ARGV[4]  numbers of the requests, one after another
-- then the lines that they have put out
--
-- Returns 'done'; or 'strange', and nothing has happened, if one of them is not handed out.

if not done_before then
  local numbers = {}
  for i = 1, #ARGV[4], NUMBER_BYTES do
    local number = string.sub(ARGV[4], i, i + NUMBER_BYTES - 1)
    if redis.call('HEXISTS', leased_key, number) == 0 then return {'strange'} end
    numbers[#numbers + 1] = number
  end
  local entry = {'worker', ARGV[1]}
  for i = 5, #ARGV do
    entry[#entry + 1] = i - 4
    entry[#entry + 1] = ARGV[i]
    if #entry > 2000 or i == #ARGV then
      redis.call('XADD', KEYS[1] .. ':output', '*', unpack(entry))
      entry = {'worker', ARGV[1]}
    end
  end
  for _, number in ipairs(numbers) do redis.call('HDEL', leased_key, number) end
  redis.call('HINCRBY', state_key, 'done', #numbers)
  redis.call('HSET', state_key, 'step', ARGV[3])
end
return {'done'}
