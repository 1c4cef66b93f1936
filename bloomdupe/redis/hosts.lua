-- Counts the pending requests in some of a partition's slots, and changes nothing. Begins
-- with queue.lua.
--
-- ARGV[1]  the cursor: 0, or the cursor that the last call has returned
-- ARGV[2]  number of slots, about
--
-- Returns the next cursor (0 at the end); and of each slot its name, and the number of its
-- pending requests. A slot that has such requests all the time is returned at least once.

local found = redis.call('ZSCAN', slots_key, ARGV[1], 'COUNT', ARGV[2])
local answer = {found[1]}
for i = 1, #found[2], 2 do
  answer[#answer + 1] = found[2][i]
  answer[#answer + 1] = redis.call('ZCARD', queue_key .. found[2][i])
end
return answer
