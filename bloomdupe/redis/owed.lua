-- Reads requests that wait in some slots, in each the next one first, and changes nothing.
-- Begins with queue.lua.
--
-- ARGV[1]  priority negated of the request of the first slot after which to begin; empty: at
--          the beginning. That request may be gone
-- ARGV[2]  its number
-- ARGV[3]  how many requests at most
-- ARGV[4]  bytes after which to stop
-- then the names of the slots
--
-- Returns how many of the slots were read to their ends, and of each request the place of its
-- slot (from 0), its number, the priority negated, and the payload.

local left, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local queue

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

-- The place of the queue at which to go on.
local function first_place()
  local last_score, last_kind, last_turn = tonumber(ARGV[1]), order_of(ARGV[2])
  local function is_after(member, score)
    if score ~= last_score then return score > last_score end
    local kind, turn = order_of(member)
    if kind ~= last_kind then return kind > last_kind end
    return turn > last_turn
  end
  local place, too_far = 0, redis.call('ZCARD', queue)
  while place < too_far do
    local middle = math.floor((place + too_far) / 2)
    if is_after(at(middle)) then too_far = middle else place = middle + 1 end
  end
  return place
end

local answer = {0}
for i = 5, #ARGV do
  queue = queue_key .. ARGV[i]
  local place = i == 5 and ARGV[1] ~= '' and first_place() or 0
  local member, score = at(place)
  while member do
    if left <= 0 or bytes <= 0 then return answer end
    answer[#answer + 1] = i - 5
    answer[#answer + 1] = string.sub(member, 1, NUMBER_BYTES)
    answer[#answer + 1] = string.format('%.17g', score)
    answer[#answer + 1] = string.sub(member, NUMBER_BYTES + 1)
    place, left, bytes = place + 1, left - 1, bytes - #member
    member, score = at(place)
  end
  answer[1] = i - 4
end
return answer
