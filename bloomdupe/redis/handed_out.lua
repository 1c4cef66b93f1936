-- Reads some of what the owner was handed out, and changes nothing. Begins with queue.lua.
--
-- ARGV[1]  where to begin: 0, or what the last call has returned
-- ARGV[2]  how many requests, about
--
-- Returns where to go on (0: that was all); the name of the owner; and of each request its
-- number, its slot, the priority negated, and the payload. One that is handed out all the
-- time comes once at least.

local found = redis.call('HSCAN', leased_key, ARGV[1], 'COUNT', ARGV[2])
local answer = {found[1], redis.call('HGET', state_key, 'worker') or ''}
for i = 1, #found[2], 2 do
  local value = found[2][i + 1]
  local score, length, first = struct.unpack('<dH', value)
  answer[#answer + 1] = found[2][i]
  answer[#answer + 1] = string.sub(value, first, first + length - 1)
  answer[#answer + 1] = string.format('%.17g', score)
  answer[#answer + 1] = string.sub(value, first + length)
end
return answer
