-- Counts what waits in some of a partition's slots, and changes nothing. Begins with
-- queue.lua.
--
-- ARGV[1]  where to begin: 0, or what the last call has returned
-- ARGV[2]  how many slots, about
--
-- Returns where to go on (0: that was all); and of each slot its name, and how many
-- requests wait in it. One that waits all the time comes once at least.

local found = redis.call('ZSCAN', slots_key, ARGV[1], 'COUNT', ARGV[2])
local answer = {found[1]}
for i = 1, #found[2], 2 do
  answer[#answer + 1] = found[2][i]
  answer[#answer + 1] = redis.call('ZCARD', queue_key .. found[2][i])
end
return answer
