-- Adds a layer, unless another process has done so meanwhile.
--
-- KEYS[1]  the head
-- ARGV[1]  the expected `made` of the head
-- ARGV[2]  the expected number of layers
-- ARGV[3]  the shape of the new layer
--
-- Returns 1 if it was added.

local found = redis.call('HMGET', KEYS[1], 'made', 'layers')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'layer:' .. ARGV[2], ARGV[3], 'keys:' .. ARGV[2], 0,
  'layers', ARGV[2] + 1)
return 1
