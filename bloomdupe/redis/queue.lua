-- The pending requests of a partition, and those in progress on its owner.
--
-- HEAD:state       hash; `worker`, `fence`, `until` (Unix milliseconds) and `step` of the
--                  owner, `handed`, `pushed`, `done`, `turn`; `deleted`, the first entry of the
--                  output that was not deleted; `idle`, the fence of an owner that had begun
--                  no request when it gave the partition back; `unknown`, the time until
--                  which another owner may have sent requests; `failing`, the number of
--                  changes to the failed requests; `forgotten`, the number of those that
--                  were removed, because there were too many; `dropped`, the number of
--                  pending requests that were removed by hand
-- HEAD:slots       sorted set of the slots with pending requests; the score is a slot's
--                  turn, or PARKED while its owner has enough of it
-- HEAD:queue:SLOT  sorted set; the score is the priority, negated; the member is the
--                  number of the request (9 bytes, in the order of its turn) and its payload
-- HEAD:leased      hash from the number to priority (double), length of the slot's name
--                  (2 bytes), name, payload
-- HEAD:left        hash; the numbers of requests in HEAD:leased that the owner will not
--                  settle
-- HEAD:aside       hash from the numbers of requests that a worker could not restore to the
--                  reason
-- HEAD:pages       hash from a slot to the number of its requests, if that is limited
-- HEAD:about       hash from a slot to its state, for the next owner of the partition
-- HEAD:about:ends  sorted set of the same slots by the time at which the state is dropped
--                  (Unix milliseconds); infinite while the slot has requests
-- HEAD:failed      hash from a failed request to its entry (see failed.lua)
-- HEAD:failed:order  sorted set of the same requests, by the order of their failures
-- HEAD:output      stream of the output of requests that are done: `worker`, lines
--
-- All of them have the hash tag of the head, KEYS[1], so a Redis Cluster keeps them on the
-- same node.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('GONE there is no such partition')
end

local PARKED = 2 ^ 53
local NUMBER_BYTES = 9
local state_key, slots_key = KEYS[1] .. ':state', KEYS[1] .. ':slots'
local queue_key, leased_key = KEYS[1] .. ':queue:', KEYS[1] .. ':leased'
local left_key = KEYS[1] .. ':left'
local aside_key = KEYS[1] .. ':aside'
local about_key, ends_key = KEYS[1] .. ':about', KEYS[1] .. ':about:ends'
local failed_key, failures_key = KEYS[1] .. ':failed', KEYS[1] .. ':failed:order'

-- Returns Unix milliseconds.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the number of requests ever accepted, without those that were removed by hand.
local function accepted()
  local found = redis.call('HMGET', state_key, 'pushed', 'dropped')
  return (found[1] or 0) - (found[2] or 0)
end

-- Lets a slot take turns, after all other slots.
local function join(slot)
  redis.call('ZADD', slots_key, redis.call('HINCRBY', state_key, 'turn', 1), slot)
end

-- Returns the number of a request of this kind (see offer.lua), the `count`-th request that
-- the partition has accepted.
local function numbered(kind, count)
  local newest_first = kind == 'a' or kind == 'c'
  return kind .. struct.pack('>I8', newest_first and 2 ^ 53 - count or count)
end

-- Makes a request pending.
local function put(slot, score, member)
  redis.call('ZADD', queue_key .. slot, score, member)
  if not redis.call('ZSCORE', slots_key, slot) then join(slot) end
end

-- Lets all slots take turns.
local function join_parked()
  for _, slot in ipairs(redis.call('ZRANGEBYSCORE', slots_key, PARKED, PARKED)) do
    join(slot)
  end
end

-- Makes all requests in progress pending again, and lets all slots take turns.
local function put_back()
  local leased = redis.call('HGETALL', leased_key)
  for i = 1, #leased, 2 do
    local score, length, first = struct.unpack('<dH', leased[i + 1])
    local slot = string.sub(leased[i + 1], first, first + length - 1)
    put(slot, score, leased[i] .. string.sub(leased[i + 1], first + length))
  end
  redis.call('DEL', leased_key, left_key)
  join_parked()
end
