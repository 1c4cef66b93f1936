-- Adds a batch of keys to the newest layer, or asks for them.
--
-- KEYS[1]  the head of the filter
-- ARGV[1]  'add' or 'ask'
-- ARGV[2]  its header, as the caller knows it
-- ARGV[3]  its layers, as the caller knows them: of each, capacity, p, hashes and blocks
-- ARGV[4]  its layers with the next one
-- ARGV[5]  number of keys
-- ARGV[6]  a record per key: block hash (4 bytes), then positions (2 bytes each)
--
-- Returns a digit for each processed key. Of 'add': '1' (new) or '0' (seen); of 'ask': '1'
-- (maybe seen) or '0' (certainly not). Keys are left if the head is another one, or if the
-- newest layer is full, which begins the next one: then the caller reads the head, and sends
-- them again. A seen key writes nothing, so it costs neither the replicas nor the log anything.
--
-- The blocks are not among KEYS, because they follow from the batch. They have the hash tag
-- of the head, so a Redis Cluster keeps them on the same node.

local head, asking = KEYS[1], ARGV[1] == 'ask'
local layers = cjson.decode(ARGV[3])
local count = #layers
local counter = 'keys:' .. (count - 1)
local found = redis.call('HMGET', head, 'header', 'layers', counter)
if found[1] ~= ARGV[2] or (found[2] or '[]') ~= ARGV[3] then return '' end

local BLOCK_BITS = 65344
local prefix = head .. ':' .. cjson.decode(ARGV[2]).made .. ':'
for number, shape in ipairs(layers) do
  shape.hashes, shape.blocks = shape[3], shape[4]
  shape.prefix = prefix .. number - 1 .. ':'
end
local newest = layers[count] or { 0, hashes = 0 }
local left, added = newest[1] - (found[3] or 0), 0

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

local answers, batch = {}, ARGV[6]
local fields = '<I4' .. string.rep('H', newest.hashes)
for offset = 1, #batch, #batch / ARGV[5] do
  local where = {struct.unpack(fields, batch, offset)}
  local is_seen = seen(where)
  if not asking and not is_seen then
    if added >= left then
      -- Begun before any key is added, for the same reason.
      if added == 0 then redis.call('HSET', head, 'layers', ARGV[4], 'keys:' .. count, 0) end
      break
    end
    mark(where)
  end
  answers[#answers + 1] = is_seen == asking and '1' or '0'
end
if added > 1 then redis.call('HINCRBY', head, counter, added - 1) end
return table.concat(answers)
