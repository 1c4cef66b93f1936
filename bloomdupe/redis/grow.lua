-- Adds a layer, if nobody has done so meanwhile.
--
-- KEYS[1]  the head
-- ARGV[1]  what the head must have as `made`
-- ARGV[2]  how many layers it must have
-- ARGV[3]  the shape of the new one
--
-- Returns 1 if it was added.

local found = redis.call('HMGET', KEYS[1], 'made', 'layers')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'layer:' .. ARGV[2], ARGV[3], 'keys:' .. ARGV[2], 0,
  'layers', ARGV[2] + 1)
return 1
