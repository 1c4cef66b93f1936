-- Settles requests, and stores their lines of output. Begins with queue.lua, owner.lua,
-- put_out.lua, about.lua and failed.lua.
--
-- ARGV[4]  numbers of the requests, joined
-- ARGV[5]  number of requests that take the place of some of them, such as their retries and
--          next visits
-- ARGV[6]  number of slots with a new state
-- ARGV[7]  number of changes to the failed requests
-- ARGV[8]  number of groups of counts with new numbers
-- then for each request that takes a place its slot, priority negated, kind (see offer.lua;
-- it may have a time) and payload
-- then for each of these slots the arguments of about.lua
-- then for each of these changes the arguments of failed.lua
-- then for each of these groups its name and its numbers
-- then the lines of output of all of them
--
-- Returns 'done'; or 'strange', and changes nothing, if a request is not in progress.

if not done_before then
  local numbers = {}
  for i = 1, #ARGV[4], NUMBER_BYTES do
    local number = string.sub(ARGV[4], i, i + NUMBER_BYTES - 1)
    if redis.call('HEXISTS', leased_key, number) == 0 then return {'strange'} end
    numbers[#numbers + 1] = number
  end
  local states = 9 + 4 * ARGV[5]
  local failed = states + 3 * ARGV[6]
  keep_failed(failed, tonumber(ARGV[7]))
  put_out(keep_totals(failed + 3 * ARGV[7], ARGV[8]))
  for _, number in ipairs(numbers) do redis.call('HDEL', leased_key, number) end
  if redis.call('EXISTS', aside_key) == 1 then
    for _, number in ipairs(numbers) do redis.call('HDEL', aside_key, number) end
  end
  for i = 9, states - 1, 4 do
    push(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  end
  keep_states(states, tonumber(ARGV[6]))
  redis.call('HINCRBY', state_key, 'done', #numbers)
  redis.call('HSET', state_key, 'step', ARGV[3])
end
return {'done'}
