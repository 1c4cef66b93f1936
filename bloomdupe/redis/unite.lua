-- Puts pages of another filter into those of a layer.
--
-- KEYS[1]  the head
-- KEYS[2]  a name for what is needed in between; nothing is left there
-- ARGV[1]  what the head must have as `made`
-- ARGV[2]  the number of the layer
-- ARGV[3]  how many keys more the layer has from now on
-- then two for each page: its number, its bytes
--
-- Returns 1, or 0 if the filter was cleared or made anew meanwhile.

local head = KEYS[1]
if redis.call('HGET', head, 'made') ~= ARGV[1] then return 0 end
local prefix = head .. ':' .. ARGV[1] .. ':' .. ARGV[2] .. ':'
for i = 4, #ARGV, 2 do
  redis.call('SET', KEYS[2], ARGV[i + 1])
  redis.call('BITOP', 'OR', prefix .. ARGV[i], prefix .. ARGV[i], KEYS[2])
end
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', head, 'keys:' .. ARGV[2], ARGV[3])
return 1
