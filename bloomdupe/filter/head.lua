-- Changes the head of a filter, unless another process has changed it meanwhile.
--
-- KEYS[1]  the head
-- ARGV[1]  its expected `made`; empty: there is no head
-- ARGV[2]  its expected `layers`
-- ARGV[3]  'clear': all blocks are deleted; empty: they stay
-- then     fields and values to set
--
-- Returns whether it was changed, 1 or 0, and its fields and values now.

local head, made, layers = KEYS[1], ARGV[1], ARGV[2]
local found = redis.call('HMGET', head, 'made', 'layers')
local same = found[1] == made and found[2] == layers
if made == '' then same = redis.call('EXISTS', head) == 0 end
if not same then return {0, redis.call('HGETALL', head)} end
if ARGV[3] == 'clear' then
  for number = 0, layers - 1 do
    local shape = cjson.decode(redis.call('HGET', head, 'layer:' .. number))
    local prefix = head .. ':' .. made .. ':' .. number .. ':'
    for block = 0, shape.blocks - 1 do redis.call('UNLINK', prefix .. block) end
    redis.call('HDEL', head, 'layer:' .. number, 'keys:' .. number)
  end
end
redis.call('HSET', head, unpack(ARGV, 4))
return {1, redis.call('HGETALL', head)}
