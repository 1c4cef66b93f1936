-- Adds a batch of keys to the newest layer. Begins with layers.lua and mark.lua.
--
-- Returns a state and, for each processed key, '1' (new) or '0' (seen). In the state
-- 'full' the caller adds a layer, and sends the remaining keys again. A seen
-- key writes nothing, so it costs neither the replicas nor the log anything.

for offset = 1, #batch, size do
  local where = read(offset)
  if seen(where) then
    flags[#flags + 1] = '0'
  elseif is_full() then
    state = 'full'
    break
  else
    mark(where)
    added = added + 1
    flags[#flags + 1] = '1'
  end
end
return answer()
