-- Looks up a batch of keys. Begins with layers.lua.
--
-- Returns a state and, for each key, '1' (maybe seen) or '0' (certainly not).

local flags = {}
for offset = 1, #batch, size do
  local where = read(offset)
  flags[#flags + 1] = seen(where) and '1' or '0'
end
return {'done', table.concat(flags)}
