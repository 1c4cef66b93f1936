-- Adds a batch of keys to the newest layer, or asks for them.
--
-- KEYS[1]  the head of the filter
-- ARGV[1]  'add' or 'ask'
-- ARGV[2]  the expected `made` of the head
-- ARGV[3]  number of layers that the caller knows
-- ARGV[4]  the batch, a record per key: block hash (4 bytes), then positions (2 bytes each)
-- ARGV[5]  bytes of a record
-- ARGV[6]  capacity of the newest layer
-- then two for each layer, oldest first: its blocks, its hashes
--
-- Returns a state and, for each processed key, a digit. Of 'add': '1' (new) or '0' (seen);
-- of 'ask': '1' (maybe seen) or '0' (certainly not). In the state 'full' the caller adds a
-- layer, and sends the remaining keys again; after 'changed' it reads the head. A seen key
-- writes nothing, so it costs neither the replicas nor the log anything.
--
-- The blocks are not among KEYS, because they follow from the batch. They have the hash tag
-- of the head, so a Redis Cluster keeps them on the same node.

local head, asking, made, count = KEYS[1], ARGV[1] == 'ask', ARGV[2], tonumber(ARGV[3])
local counter = 'keys:' .. (count - 1)
local found = redis.call('HMGET', head, 'made', 'layers', counter)
if found[1] ~= made or tonumber(found[2]) ~= count then return {'changed', ''} end

local batch, size = ARGV[4], tonumber(ARGV[5])
local left, added = tonumber(ARGV[6]) - tonumber(found[3]), 0
local BLOCK_BITS = 65344

local layers = {}
for number = 1, count do
  layers[number] = {
    blocks = tonumber(ARGV[2 * number + 5]),
    hashes = tonumber(ARGV[2 * number + 6]),
    prefix = head .. ':' .. made .. ':' .. (number - 1) .. ':',
  }
end
local newest = layers[count]
local fields = '<I4' .. string.rep('H', newest.hashes)

-- Whether all bits of a key are set in a layer. A position past the end of the block counts
-- as set. A bit by itself costs less than many in one command, and a new key needs few.
local function has(layer, where)
  local block = layer.prefix .. where[1] % layer.blocks
  for i = 2, layer.hashes + 1 do
    if where[i] < BLOCK_BITS and redis.call('GETBIT', block, where[i]) == 0 then
      return false
    end
  end
  return true
end

-- Whether any layer has a key. Newest first: it is the largest.
local function seen(where)
  for number = count, 1, -1 do
    if has(layers[number], where) then return true end
  end
  return false
end

-- Sets the bits of a key in the newest layer. The first words add 0 to the last bit, so that
-- a block has its full length from the first key on: a string that grows takes up to twice the
-- memory.
local function mark(where)
  if added == 0 then
    -- Counted before any bit is set: if Redis refuses one of the two commands, because the
    -- user has no right to it, no key is added without being reported to the caller.
    redis.call('HINCRBY', head, counter, 1)
  end
  local words, last = {'INCRBY', 'u1', BLOCK_BITS - 1, 0}, 4
  for i = 2, newest.hashes + 1 do
    if where[i] < BLOCK_BITS then
      words[last + 1], words[last + 2] = 'SET', 'u1'
      words[last + 3], words[last + 4] = where[i], 1
      last = last + 4
    end
  end
  redis.call('BITFIELD', newest.prefix .. where[1] % newest.blocks, unpack(words))
  added = added + 1
end

local flags, state = {}, 'done'
for offset = 1, #batch, size do
  local where = {struct.unpack(fields, batch, offset)}
  local is_seen = seen(where)
  if asking then
    flags[#flags + 1] = is_seen and '1' or '0'
  elseif is_seen then
    flags[#flags + 1] = '0'
  elseif added >= left then
    break
  else
    mark(where)
    flags[#flags + 1] = '1'
  end
end
if added > 1 then redis.call('HINCRBY', head, counter, added - 1) end
if not asking and added >= left then state = 'full' end
return {state, table.concat(flags)}
