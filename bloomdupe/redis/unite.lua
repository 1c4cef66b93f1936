-- Merges another filter into a filter: pages into the pages of a layer.
--
-- KEYS[1]  the head
-- KEYS[2]  a temporary key, which is deleted at the end
-- ARGV[1]  the expected `made` of the head
-- ARGV[2]  the number of the layer
-- ARGV[3]  the number of keys to add to the layer's count
-- then two for each page: its number, its bytes
--
-- Returns 1, or 0 if the filter was cleared or created anew meanwhile.

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
