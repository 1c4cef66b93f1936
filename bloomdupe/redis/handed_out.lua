-- Reads some of the requests in progress, and changes nothing. Begins with queue.lua.
--
-- ARGV[1]  the cursor: 0, or the cursor that the last call has returned
-- ARGV[2]  number of requests, about
--
-- Returns the next cursor (0 at the end); and of each request its number, its slot, the
-- priority negated, the payload, and the name of the owner. A request that is in progress all
-- the time is returned at least once.

local found = redis.call('HSCAN', leased_key, ARGV[1], 'COUNT', ARGV[2])
local owner = redis.call('HGET', state_key, 'worker') or ''
local answer = {found[1]}
for i = 1, #found[2], 2 do
  local slot, score, payload = unpacked(found[2][i + 1], 1)
  answer[#answer + 1] = found[2][i]
  answer[#answer + 1] = slot
  answer[#answer + 1] = string.format('%.17g', score)
  answer[#answer + 1] = payload
  answer[#answer + 1] = owner
end
return answer
