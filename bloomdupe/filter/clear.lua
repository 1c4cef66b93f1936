-- Forgets all keys; parameters and key stay.
--
-- KEYS[1]  the head
-- ARGV[1]  the expected `made` of the head
-- ARGV[2]  the new `made`
-- ARGV[3]  the shape of the first layer
--
-- Returns 1, or 0 if another process has cleared it meanwhile.

local head = KEYS[1]
local found = redis.call('HMGET', head, 'made', 'layers')
if found[1] ~= ARGV[1] then return 0 end
for number = 0, found[2] - 1 do
  local shape = cjson.decode(redis.call('HGET', head, 'layer:' .. number))
  local prefix = head .. ':' .. ARGV[1] .. ':' .. number .. ':'
  for page = 0, shape.pages - 1 do redis.call('UNLINK', prefix .. page) end
  redis.call('HDEL', head, 'layer:' .. number, 'keys:' .. number)
end
redis.call('HSET', head, 'made', ARGV[2], 'layers', 1, 'layer:0', ARGV[3], 'keys:0', 0)
return 1
