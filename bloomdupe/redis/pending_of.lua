-- Reads pending requests of some slots, slot by slot in the order of their turns, and changes
-- nothing. Begins with queue.lua.
--
-- ARGV[1]  priority negated of the request of the first slot after which to begin; empty: at
--          the beginning. That request may be gone
-- ARGV[2]  its number
-- ARGV[3]  highest number of requests
-- ARGV[4]  bytes after which to stop
-- then the names of the slots
--
-- Returns the number of slots that were read to their ends, and of each request the place of
-- its slot (from 0), its number, the priority negated, and the payload.

local left, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local queue

-- Returns the two parts of a number by which numbers are sorted: the kind, and the turn (see
-- offer.lua). Lua would compare the bytes in the order of the locale.
local function order_of(number)
  return string.byte(number), struct.unpack('>I8', number, 2)
end

-- Returns the request at a place of the queue, and its priority negated; nothing at the end.
local function at(place)
  local found = redis.call('ZRANGE', queue, place, place, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- Returns the place of the queue at which to continue.
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
