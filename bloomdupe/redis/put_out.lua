-- Stores counts and lines of output. Begins with queue.lua.

-- Stores new numbers of so many groups of counts, which begin at the argument `first`, and
-- returns the number of the argument behind them.
local function keep_totals(first, groups)
  local behind = first + 2 * groups
  if behind > first then
    redis.call('HSET', totals_key, unpack(ARGV, first, behind - 1))
  end
  return behind
end

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
