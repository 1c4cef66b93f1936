-- Lets requests claim keys: of the requests that claim a key only the first gets it, and gets it
-- again when it is done again. Begins with layers.lua and mark.lua.
--
-- The batch has two keys for each claim: the key; and the name of the claim, which differs from
-- request to request.
--
-- Returns the same as add.lua, '1' twice for a claim that has its key, and else '0' twice.

for offset = 1, #batch, 2 * size do
  local key, name = read(offset), read(offset + size)
  if seen(name) then
    flags[#flags + 1] = '11'
  elseif seen(key) then
    flags[#flags + 1] = '00'
  elseif is_full() then
    state = 'full'
    break
  else
    for _, where in ipairs({name, key}) do
      mark(where)
      added = added + 1
    end
    flags[#flags + 1] = '11'
  end
end
return answer()
