-- Accepts requests: requests with new fingerprints become pending. Begins with layers.lua,
-- mark.lua and queue.lua.
--
-- After the arguments of layers.lua, for each request of the batch: slot, priority negated,
-- kind and payload. The kind is the first byte of the number: among requests of the same
-- priority, those of kind a or b have their turn before those of c or d.
--   a, c  newest first
--   b, d  oldest first
--   m     no request: its fingerprint is marked
--
-- Returns the same as add.lua. Any worker may offer a request, and may offer it again: an
-- accepted request counts as seen.

local number = tonumber(redis.call('HGET', state_key, 'pushed') or 0)
local field = 2 * count + 7
for offset = 1, #batch, size do
  local where, hash = read(offset)
  if seen(hash, where) then
    flags[#flags + 1] = '0'
  elseif is_full() then
    state = 'full'
    break
  else
    local kind = ARGV[field + 2]
    if kind ~= 'm' then
      number = number + 1
      -- It is put into the queue before it is marked: if Redis refuses one of the two
      -- commands, the request is done twice, and not lost.
      redis.call('HSET', state_key, 'pushed', number)
      put(ARGV[field], ARGV[field + 1], numbered(kind, number) .. ARGV[field + 3])
    end
    mark(hash, where)
    added = added + 1
    flags[#flags + 1] = '1'
  end
  field = field + 4
end
return answer()
