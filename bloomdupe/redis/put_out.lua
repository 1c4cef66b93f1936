-- Keeps lines that requests have put out. Begins with queue.lua.

-- Puts out the arguments from a place on, as an entry, or several if there are many.
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
