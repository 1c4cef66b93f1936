-- The pending requests of a partition, and those in progress on its owner.
--
-- HEAD:state       hash; `worker`, `fence`, `until` (Unix milliseconds) and `step` of the
--                  owner, `handed`, `pushed`, `done`, `turn`; `deleted`, the first entry of the
--                  output that was not deleted; `idle`, the fence of an owner that had begun
--                  no request when it gave the partition back; `unknown`, the time until
--                  which another owner may have sent requests; `failing`, the number of
--                  changes to the failed requests; `forgotten`, the number of those that
--                  were removed, because there were too many; `dropped`, the number of
--                  pending requests that were removed by hand; `scheduled`, the number
--                  of requests that were ever scheduled for later
-- HEAD:slots       sorted set of the slots with pending requests; the score is a slot's
--                  turn, or PARKED while its owner has enough of it
-- HEAD:queue:SLOT  sorted set; the score is the priority, negated; the member is the
--                  number of the request (9 bytes, in the order of its turn) and its payload
-- HEAD:later       sorted set of the requests that are scheduled for later, by their times in
--                  Unix milliseconds; the member is a number like those of the queue, and
--                  then a value as in HEAD:leased. A request joins the queue of its slot when
--                  its time has come, and only then it gets its number there and is `pushed`
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
-- HEAD:totals      hash from a group of counts to its numbers, as the owner has sent them
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
local later_key, left_key = KEYS[1] .. ':later', KEYS[1] .. ':left'
local aside_key = KEYS[1] .. ':aside'
local about_key, ends_key = KEYS[1] .. ':about', KEYS[1] .. ':about:ends'
local totals_key = KEYS[1] .. ':totals'
local failed_key, failures_key = KEYS[1] .. ':failed', KEYS[1] .. ':failed:order'

-- Returns Unix milliseconds.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the number of requests ever accepted, without those that were removed by hand; the
-- number of those that are scheduled for later; and the milliseconds until the first of them
-- is due, or 0.
local function accepted()
  local found = redis.call('HMGET', state_key, 'pushed', 'dropped')
  local later = redis.call('ZCARD', later_key)
  local due = 0
  if later > 0 then due = redis.call('ZRANGE', later_key, 0, 0, 'WITHSCORES')[2] - now() end
  return (found[1] or 0) - (found[2] or 0) + later, later, due
end

-- Returns the number of requests that are pending, and not for later, or in progress.
local function work()
  local every, later = accepted()
  return every - later - (redis.call('HGET', state_key, 'done') or 0)
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

-- Lets a request take its turn in its slot.
local function put(slot, score, member)
  redis.call('ZADD', queue_key .. slot, score, member)
  if not redis.call('ZSCORE', slots_key, slot) then join(slot) end
end

-- Returns the value of a request in progress, or scheduled for later.
local function packed(slot, score, payload)
  return struct.pack('<dH', score, #slot) .. slot .. payload
end

-- Returns slot, score and payload of a request whose packed value begins at `first`.
local function unpacked(value, first)
  local score, length, name = struct.unpack('<dH', value, first)
  return string.sub(value, name, name + length - 1), score, string.sub(value, name + length)
end

-- Lets a new request take its turn in its slot, after those of its kind that are there.
local function push_now(slot, score, kind, payload)
  local count = redis.call('HINCRBY', state_key, 'pushed', 1)
  put(slot, score, numbered(kind, count) .. payload)
end

-- Makes a new request pending. `kind` is its kind (see offer.lua), which may be followed by
-- '@' and Unix milliseconds: then it is scheduled for that time, unless the time has come.
local function push(slot, score, kind, payload)
  local due = #kind > 1 and tonumber(string.match(kind, '@(%d+)$'))
  kind = string.sub(kind, 1, 1)
  if due and due > now() then
    local count = redis.call('HINCRBY', state_key, 'scheduled', 1)
    local number = kind .. struct.pack('>I8', count)
    redis.call('ZADD', later_key, due, number .. packed(slot, score, payload))
  else
    push_now(slot, score, kind, payload)
  end
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
    local slot, score, payload = unpacked(leased[i + 1], 1)
    put(slot, score, leased[i] .. payload)
  end
  redis.call('DEL', leased_key, left_key)
  join_parked()
end
