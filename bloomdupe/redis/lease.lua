-- Hands out requests to the owner; before that, some requests that are due join the queues of
-- their slots. Begins with queue.lua and owner.lua.
--
-- ARGV[4]  highest number of requests
-- ARGV[5]  highest number of requests of a slot
-- ARGV[6]  the slot whose turn has begun, or ''
-- ARGV[7]  number of requests that it has had in this turn
-- then the names of slots that take turns again
--
-- Returns 'done' and, for each request, its number, its slot, the priority negated, the
-- payload, and the state of the slot, if it has one: only with the first of its requests. A
-- slot that has had its requests, and has further requests, is parked then, at most until the
-- owner has no requests in progress. The last slot may have had fewer: its turn goes on.

-- Requests scheduled for later that join their slots at once, because each takes time.
local MOST_DUE = 100

local function move_due()
  local due = redis.call('ZRANGEBYSCORE', later_key, '-inf', now(), 'LIMIT', 0, MOST_DUE)
  for _, member in ipairs(due) do
    local slot, score, payload = unpacked(member, NUMBER_BYTES + 1)
    push_now(slot, score, string.sub(member, 1, 1), payload)
    redis.call('ZREM', later_key, member)
  end
end

local handed = {}
if done_before then
  local numbers = redis.call('HGET', state_key, 'handed')
  for i = 1, #numbers, NUMBER_BYTES do
    handed[#handed + 1] = string.sub(numbers, i, i + NUMBER_BYTES - 1)
  end
else
  for i = 8, #ARGV do
    local score = redis.call('ZSCORE', slots_key, ARGV[i])
    if score and tonumber(score) == PARKED then join(ARGV[i]) end
  end
  if redis.call('EXISTS', later_key) == 1 then move_due() end
  if redis.call('HLEN', leased_key) == redis.call('HLEN', left_key) then join_parked() end
  local left, of_each = tonumber(ARGV[4]), tonumber(ARGV[5])
  while left > 0 do
    local slot = redis.call('ZRANGE', slots_key, 0, 0, 'WITHSCORES')
    if #slot == 0 or tonumber(slot[2]) == PARKED then break end
    local queue = queue_key .. slot[1]
    local had = slot[1] == ARGV[6] and tonumber(ARGV[7]) or 0
    local popped = redis.call('ZPOPMIN', queue, math.min(left, math.max(1, of_each - had)))
    for i = 1, #popped, 2 do
      local number = string.sub(popped[i], 1, NUMBER_BYTES)
      local payload = string.sub(popped[i], NUMBER_BYTES + 1)
      redis.call('HSET', leased_key, number, packed(slot[1], popped[i + 1], payload))
      handed[#handed + 1] = number
    end
    left = left - #popped / 2
    if redis.call('EXISTS', queue) == 0 then
      redis.call('ZREM', slots_key, slot[1])
    elseif had + #popped / 2 >= of_each then
      redis.call('ZADD', slots_key, PARKED, slot[1])
    end
  end
  redis.call('HSET', state_key, 'step', ARGV[3], 'handed', table.concat(handed))
end

local answer, about = {'done'}, {}
local stated = #handed > 0 and redis.call('EXISTS', about_key) == 1
for _, number in ipairs(handed) do
  local slot, score, payload = unpacked(redis.call('HGET', leased_key, number), 1)
  answer[#answer + 1] = number
  answer[#answer + 1] = slot
  answer[#answer + 1] = tostring(score)
  answer[#answer + 1] = payload
  answer[#answer + 1] = stated and not about[slot] and redis.call('HGET', about_key, slot) or ''
  about[slot] = true
end
return answer
