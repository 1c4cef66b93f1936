-- The beginning of add.lua, offer.lua and contains.lua: the layers, and the look-up of keys.
--
-- KEYS[1]  the head of the filter
-- ARGV[1]  the expected `made` of the head
-- ARGV[2]  number of layers that the caller knows
-- ARGV[3]  the batch, a record per key: page hash (4 bytes), then positions (2 bytes each)
-- ARGV[4]  bytes of a record
-- ARGV[5]  growth: "grow", "warn" or "error"
-- ARGV[6]  capacity of the newest layer
-- then two for each layer, oldest first: its pages, its hashes
--
-- The pages are not among KEYS, because they follow from the batch. They have the hash tag
-- of the head, so a Redis Cluster keeps them on the same node.

local head, made, count = KEYS[1], ARGV[1], tonumber(ARGV[2])
local found = redis.call('HMGET', head, 'made', 'layers')
if found[1] ~= made or tonumber(found[2]) ~= count then
  return {'changed', ''}
end

local batch, size = ARGV[3], tonumber(ARGV[4])
local PAGE_BITS = 65344

local layers = {}
for number = 1, count do
  local layer = {
    pages = tonumber(ARGV[2 * number + 5]),
    hashes = tonumber(ARGV[2 * number + 6]),
    prefix = head .. ':' .. made .. ':' .. (number - 1) .. ':',
    ask = {},
  }
  for i = 1, layer.hashes do
    layer.ask[3 * i - 2], layer.ask[3 * i - 1] = 'GET', 'u1'
  end
  layers[number] = layer
end
local newest = layers[count]
local fields = '<I4' .. string.rep('H', newest.hashes)

-- Returns the positions of the key whose record begins at `offset`, and its page hash.
local function read(offset)
  local where = {struct.unpack(fields, batch, offset)}
  return where, table.remove(where, 1)
end

-- Writes the positions into the words of a command: into every `step`-th word, from `first`
-- on. A position past the end of the page counts as set, so another position replaces it.
-- Returns false if all positions are past the end.
local function place(words, first, step, hashes, where)
  local inside
  for i = 1, hashes do
    if where[i] < PAGE_BITS then inside = where[i] break end
  end
  if not inside then return false end
  for i = 1, hashes do
    words[first + step * (i - 1)] = where[i] < PAGE_BITS and where[i] or inside
  end
  return true
end

-- Whether all bits of a key are set in a layer.
local function has(layer, hash, where)
  if not place(layer.ask, 3, 3, layer.hashes, where) then return true end
  local page = layer.prefix .. hash % layer.pages
  local bits = redis.call('BITFIELD_RO', page, unpack(layer.ask))
  for i = 1, layer.hashes do
    if bits[i] == 0 then return false end
  end
  return true
end

-- Whether any layer has a key. Newest first: it is the largest.
local function seen(hash, where)
  for number = count, 1, -1 do
    if has(layers[number], hash, where) then return true end
  end
  return false
end
