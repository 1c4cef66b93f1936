-- Deletes all keys of a filter, unless it is another one by now.
--
-- KEYS[1]  the head
-- ARGV[1]  its header, as the caller knows it
-- ARGV[2]  its new header
--
-- Returns whether it was done, 1 or 0.

local head = KEYS[1]
local found = redis.call('HMGET', head, 'header', 'layers')
if found[1] ~= ARGV[1] then return 0 end
local prefix = head .. ':' .. cjson.decode(ARGV[1]).made .. ':'
for number, shape in ipairs(cjson.decode(found[2] or '[]')) do
  for block = 0, shape[4] - 1 do
    redis.call('UNLINK', prefix .. number - 1 .. ':' .. block)
  end
end
redis.call('UNLINK', head)
redis.call('HSET', head, 'header', ARGV[2])
return 1
