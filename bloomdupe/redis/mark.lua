-- Adds keys to the newest layer, and counts them. Begins with layers.lua; add.lua or
-- offer.lua follows.

local left = tonumber(ARGV[5]) - tonumber(found[3])
local added, flags, state = 0, {}, 'done'

-- Sets the bits of a key in the newest layer. The first words add 0 to the last bit, so that a
-- page has its full length from the first key on: a string that grows takes up to twice the
-- memory.
local function mark(where)
  if added == 0 then
    -- Counted before any bit is set: if Redis refuses one of the two commands, because the
    -- user has no right to it, no key is added without being reported to the caller.
    redis.call('HINCRBY', head, counter, 1)
  end
  local words, last = {'INCRBY', 'u1', PAGE_BITS - 1, 0}, 4
  for i = 2, newest.hashes + 1 do
    if where[i] < PAGE_BITS then
      words[last + 1], words[last + 2] = 'SET', 'u1'
      words[last + 3], words[last + 4] = where[i], 1
      last = last + 4
    end
  end
  redis.call('BITFIELD', newest.prefix .. where[1] % newest.pages, unpack(words))
end

-- Whether the layer is full, so that no further key may be added.
local function is_full()
  return added >= left
end

-- Counts the added keys, and returns the state and the flags.
local function answer()
  if added > 1 then redis.call('HINCRBY', head, counter, added - 1) end
  if is_full() then state = 'full' end
  return {state, table.concat(flags)}
end
