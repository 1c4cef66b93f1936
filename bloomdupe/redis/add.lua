-- Adds a batch of keys to the newest layer. Begins with layers.lua.
--
-- Returns a state and, for each key that was gone through, '1' (new) or '0' (seen). In
-- the state 'full' the caller does what is due, and sends what was not gone through.
-- A key that is seen writes nothing, so it costs neither a replica nor the log anything.

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
    -- Counted before any bit is set: should Redis refuse one of the two, because the user
    -- may not do it, then no key is marked that nobody was told about.
    redis.call('HINCRBY', head, counter, 1)
    for i = 1, newest.hashes do
      words[4 * i - 3], words[4 * i - 2], words[4 * i] = 'SET', 'u1', 1
    end
    words[last + 1], words[last + 2] = 'INCRBY', 'u1'
    words[last + 3], words[last + 4] = PAGE_BITS - 1, 0
  end
  -- Some position lies in the page, for the key was not seen.
  place(words, 3, 4, newest.hashes, where)
  redis.call('BITFIELD', newest.prefix .. hash % newest.pages, unpack(words))
end

for offset = 1, #batch, size do
  local where, hash = read(offset)
  if seen(hash, where) then
    flags[#flags + 1] = '0'
  elseif added >= left and growth ~= 'warn' then
    state = 'full'
    break
  else
    mark(hash, where)
    added = added + 1
    flags[#flags + 1] = '1'
  end
end

if added > 1 then redis.call('HINCRBY', head, counter, added - 1) end
if added >= left and growth ~= 'error' then state = 'full' end
return {state, table.concat(flags)}
