-- Leaves requests that the owner will not settle. They stay in progress, and are pending
-- again when the partition is given back or taken by another worker. Begins with queue.lua,
-- owner.lua, put_out.lua and about.lua.
--
-- ARGV[4]  number of requests
-- ARGV[5]  number of slots with a new state
-- ARGV[6]  number of groups of counts with new numbers
-- then for each request its number, its new payload, and the reason why it cannot be
-- restored, or nothing; a reason stays until the request is done
-- then for each of these slots the arguments of about.lua
-- then for each of these groups its name and its numbers
-- then the lines of output of all of them
--
-- Returns 'done'; or 'strange', and changes nothing, if a request is not in progress.

if not done_before then
  local states = 7 + 3 * ARGV[4]
  for i = 7, states - 1, 3 do
    if redis.call('HEXISTS', leased_key, ARGV[i]) == 0 then return {'strange'} end
  end
  put_out(keep_totals(states + 3 * ARGV[5], ARGV[6]))
  for i = 7, states - 1, 3 do
    local slot, score = unpacked(redis.call('HGET', leased_key, ARGV[i]), 1)
    redis.call('HSET', leased_key, ARGV[i], packed(slot, score, ARGV[i + 1]))
    redis.call('HSET', left_key, ARGV[i], '')
    if ARGV[i + 2] ~= '' then redis.call('HSET', aside_key, ARGV[i], ARGV[i + 2]) end
  end
  keep_states(states, tonumber(ARGV[5]))
  redis.call('HSET', state_key, 'step', ARGV[3])
end
return {'done'}
