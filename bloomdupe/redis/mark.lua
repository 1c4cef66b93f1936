-- Adds keys to the newest layer, and counts them. Begins with layers.lua; add.lua or
-- offer.lua follows.

local growth, capacity = ARGV[5], tonumber(ARGV[6])
local counter = 'keys:' .. (count - 1)
local left = capacity - tonumber(redis.call('HGET', head, counter))
local added, flags, state = 0, {}, 'done'
local words = {}

-- Sets the bits of a key in the newest layer. The last word adds 0 to the last bit, so
-- that a page has its full length from the first key on: a string that grows takes up to
-- twice the memory.
local function mark(hash, where)
  local last = 4 * newest.hashes
  if added == 0 then
    -- Counted before any bit is set: if Redis refuses one of the two commands, because the
    -- user has no right to it, no key is added without being reported to the caller.
    redis.call('HINCRBY', head, counter, 1)
    for i = 1, newest.hashes do
      words[4 * i - 3], words[4 * i - 2], words[4 * i] = 'SET', 'u1', 1
    end
    words[last + 1], words[last + 2] = 'INCRBY', 'u1'
    words[last + 3], words[last + 4] = PAGE_BITS - 1, 0
  end
  -- At least one position is inside the page, because the key was not seen.
  place(words, 3, 4, newest.hashes, where)
  redis.call('BITFIELD', newest.prefix .. hash % newest.pages, unpack(words))
end

-- Whether the layer is full, so that no further key may be added.
local function is_full()
  return added >= left and growth ~= 'warn'
end

-- Counts the added keys, and returns the state and the flags.
local function answer()
  if added > 1 then redis.call('HINCRBY', head, counter, added - 1) end
  if added >= left and growth ~= 'error' then state = 'full' end
  return {state, table.concat(flags)}
end
