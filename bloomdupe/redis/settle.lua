-- Settles or leaves requests, and stores their lines of output. A request that is left stays
-- in progress, and is pending again when the partition is given back or taken by another
-- worker. Begins with queue.lua, owner.lua, about.lua and failed.lua.
--
-- ARGV[4]  numbers of the settled requests, joined
-- ARGV[5]  number of requests that are left
-- ARGV[6]  number of requests that take the place of some that are settled, such as their
--          retries and next visits
-- ARGV[7]  number of slots with a new state
-- ARGV[8]  number of changes to the failed requests
-- ARGV[9]  number of groups of counts with new numbers
-- then for each request that is left its number, its new payload, the reason why it cannot be
-- restored, or nothing, and 1 if the worker is about to end, so that other workers wait for the
-- request; a reason stays until the request is done
-- then for each request that takes a place its slot, priority negated, kind (see offer.lua;
-- it may have a time) and payload
-- then for each of these slots the arguments of about.lua
-- then for each of these changes the arguments of failed.lua
-- then for each of these groups its name and its numbers
-- then the lines of output of all of them
--
-- Returns 'done'; or 'strange', and changes nothing, if a request is not in progress.

-- Appends the arguments from `first` on to the output, as one entry, or several for many.
local function put_out(first)
  local entry = {'worker', ARGV[1]}
  for i = first, #ARGV do
    entry[#entry + 1] = i - first + 1
    entry[#entry + 1] = ARGV[i]
    if #entry > 2000 or i == #ARGV then
      redis.call('XADD', KEYS[1] .. ':output', '*', unpack(entry))
      entry = {'worker', ARGV[1]}
    end
  end
end

if not done_before then
  local numbers = {}
  for i = 1, #ARGV[4], NUMBER_BYTES do
    local number = string.sub(ARGV[4], i, i + NUMBER_BYTES - 1)
    if redis.call('HEXISTS', leased_key, number) == 0 then return {'strange'} end
    numbers[#numbers + 1] = number
  end
  local left = 10
  local instead = left + 4 * ARGV[5]
  local states = instead + 4 * ARGV[6]
  local failed = states + 3 * ARGV[7]
  local totals = failed + 3 * ARGV[8]
  local lines = totals + 2 * ARGV[9]
  for i = left, instead - 1, 4 do
    if redis.call('HEXISTS', leased_key, ARGV[i]) == 0 then return {'strange'} end
  end
  keep_failed(failed, tonumber(ARGV[8]))
  if lines > totals then
    redis.call('HSET', totals_key, unpack(ARGV, totals, lines - 1))
  end
  put_out(lines)
  for _, number in ipairs(numbers) do redis.call('HDEL', leased_key, number) end
  if redis.call('EXISTS', aside_key) == 1 then
    for _, number in ipairs(numbers) do redis.call('HDEL', aside_key, number) end
  end
  for i = left, instead - 1, 4 do
    local slot, score = unpacked(redis.call('HGET', leased_key, ARGV[i]), 1)
    redis.call('HSET', leased_key, ARGV[i], packed(slot, score, ARGV[i + 1]))
    if ARGV[i + 3] == '0' then redis.call('HSET', left_key, ARGV[i], '') end
    if ARGV[i + 2] ~= '' then redis.call('HSET', aside_key, ARGV[i], ARGV[i + 2]) end
  end
  for i = instead, states - 1, 4 do
    push(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  end
  keep_states(states, tonumber(ARGV[7]))
  redis.call('HINCRBY', state_key, 'done', #numbers)
  redis.call('HSET', state_key, 'step', ARGV[3])
end
return {'done'}
