-- Leaves requests that the owner will not settle. They stay in progress, and are pending
-- again when the partition is given back or taken by another worker. Begins with queue.lua,
-- owner.lua and put_out.lua.
--
-- ARGV[4]  number of requests
-- then for each request its number, its new payload, and the reason why it cannot be
-- restored, or nothing; a reason stays until the request is done
-- then the lines of output of all of them
--
-- Returns 'done'; or 'strange', and changes nothing, if a request is not in progress.

if not done_before then
  local first = 5 + 3 * ARGV[4]
  for i = 5, first - 1, 3 do
    if redis.call('HEXISTS', leased_key, ARGV[i]) == 0 then return {'strange'} end
  end
  put_out(first)
  for i = 5, first - 1, 3 do
    local value = redis.call('HGET', leased_key, ARGV[i])
    local _, length, name = struct.unpack('<dH', value)
    redis.call('HSET', leased_key, ARGV[i],
      string.sub(value, 1, name + length - 1) .. ARGV[i + 1])
    redis.call('HSET', left_key, ARGV[i], '')
    if ARGV[i + 2] ~= '' then redis.call('HSET', aside_key, ARGV[i], ARGV[i + 2]) end
  end
  redis.call('HSET', state_key, 'step', ARGV[3])
end
return {'done'}
