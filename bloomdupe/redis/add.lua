-- Adds a batch of keys to the newest layer. Begins with layers.lua and mark.lua.
--
-- Returns a state and, for each key that was gone through, '1' (new) or '0' (seen). In
-- the state 'full' the caller does what is due, and sends what was not gone through.
-- A key that is seen writes nothing, so it costs neither a replica nor the log anything.

for offset = 1, #batch, size do
  local where, hash = read(offset)
  if seen(hash, where) then
    flags[#flags + 1] = '0'
  elseif is_full() then
    state = 'full'
    break
  else
    mark(hash, where)
    added = added + 1
    flags[#flags + 1] = '1'
  end
end
return answer()
