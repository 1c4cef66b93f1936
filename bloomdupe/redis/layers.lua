-- The beginning of add.lua, offer.lua and contains.lua: the layers, and the look-up of keys.
--
-- KEYS[1]  the head of the filter
-- ARGV[1]  the expected `made` of the head
-- ARGV[2]  number of layers that the caller knows
-- ARGV[3]  the batch, a record per key: page hash (4 bytes), then positions (2 bytes each)
-- ARGV[4]  bytes of a record
-- ARGV[5]  capacity of the newest layer
-- then two for each layer, oldest first: its pages, its hashes
--
-- The pages are not among KEYS, because they follow from the batch. They have the hash tag
-- of the head, so a Redis Cluster keeps them on the same node.

local head, made, count = KEYS[1], ARGV[1], tonumber(ARGV[2])
local counter = 'keys:' .. (count - 1)
local found = redis.call('HMGET', head, 'made', 'layers', counter)
if found[1] ~= made or tonumber(found[2]) ~= count then
  return {'changed', ''}
end

local batch, size = ARGV[3], tonumber(ARGV[4])
local PAGE_BITS = 65344

local layers = {}
for number = 1, count do
  layers[number] = {
    pages = tonumber(ARGV[2 * number + 4]),
    hashes = tonumber(ARGV[2 * number + 5]),
    prefix = head .. ':' .. made .. ':' .. (number - 1) .. ':',
  }
end
local newest = layers[count]
local fields = '<I4' .. string.rep('H', newest.hashes)

-- Returns the page hash and the positions of the key whose record begins at `offset`.
local function read(offset)
  return {struct.unpack(fields, batch, offset)}
end

-- Whether all bits of a key are set in a layer. A position past the end of the page counts
-- as set. A bit by itself costs less than many in one command, and a new key needs few.
local function has(layer, where)
  local page = layer.prefix .. where[1] % layer.pages
  for i = 2, layer.hashes + 1 do
    if where[i] < PAGE_BITS and redis.call('GETBIT', page, where[i]) == 0 then
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
