-- Says that the owner will not settle some requests. They stay handed out, and wait again
-- when the partition is given back or taken over. Begins with queue.lua, owner.lua and
-- put_out.lua.
--
-- ARGV[4]  how many requests
-- then for each of those its number, the payload that it has from now on, and the reason why
-- it cannot be restored, or nothing; a reason stays until the request is done
-- then the lines that all have put out
--
-- Returns 'done'; or 'strange', and nothing has happened, if a request is not handed out.

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
