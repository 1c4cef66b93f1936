-- Reads requests of one slot that wait, the next one first, and changes nothing. Begins
-- with queue.lua.
--
-- ARGV[1]  the slot
-- ARGV[2]  priority negated of the request after which to begin; empty: at the beginning
-- ARGV[3]  its number
-- ARGV[4]  how many requests at most
-- ARGV[5]  bytes after which to stop
--
-- Returns of each request its number, the priority negated, and the payload. The one after
-- which to begin may be gone.

local queue = queue_key .. ARGV[1]

-- What the order of two numbers depends on: the kind, and the turn (see offer.lua). Lua
-- would compare the bytes by the alphabet of a language.
local function order_of(number)
  return string.byte(number), struct.unpack('>I8', number, 2)
end

-- The request at a place of the queue, with its priority negated; nothing at its end.
local function at(place)
  local found = redis.call('ZRANGE', queue, place, place, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

local place = 0
if ARGV[2] ~= '' then
  local last_score, last_kind, last_turn = tonumber(ARGV[2]), order_of(ARGV[3])
  local function is_after(member, score)
    if score ~= last_score then return score > last_score end
    local kind, turn = order_of(member)
    if kind ~= last_kind then return kind > last_kind end
    return turn > last_turn
  end
  local too_far = redis.call('ZCARD', queue)
  while place < too_far do
    local middle = math.floor((place + too_far) / 2)
    if is_after(at(middle)) then too_far = middle else place = middle + 1 end
  end
end

local answer, left, bytes = {}, tonumber(ARGV[4]), tonumber(ARGV[5])
while left > 0 and bytes > 0 do
  local member, score = at(place)
  if not member then break end
  answer[#answer + 1] = string.sub(member, 1, NUMBER_BYTES)
  answer[#answer + 1] = string.format('%.17g', score)
  answer[#answer + 1] = string.sub(member, NUMBER_BYTES + 1)
  place, left, bytes = place + 1, left - 1, bytes - #member
end
return answer
