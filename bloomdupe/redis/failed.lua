-- Keeps failed requests. Begins with queue.lua.

-- Stores whether a failed request is pending again.
local function set_pending(key, entry, pending)
  local times, _, record = struct.unpack('<I4B', entry)
  redis.call('HSET', failed_key, key,
    struct.pack('<I4B', times, pending) .. string.sub(entry, record))
  redis.call('HINCRBY', state_key, 'failing', 1)
end

-- Removes the oldest failed requests until there are so many at most.
local function trim_failures(most)
  local over = redis.call('ZCARD', failures_key) - most
  if over > 0 then
    local oldest = redis.call('ZPOPMIN', failures_key, over)
    for j = 1, #oldest, 2 do redis.call('HDEL', failed_key, oldest[j]) end
    redis.call('HINCRBY', state_key, 'forgotten', over)
    redis.call('HINCRBY', state_key, 'failing', 1)
  end
end

-- Makes `count` changes, three arguments each from `first` on: the key of a request; its
-- record, or nothing if it has succeeded, or '-' if it is not pending any more; and the
-- highest number of failed requests. The oldest are removed. A record follows the number of
-- failures (4 bytes) and whether the request is pending again (1 byte).
local function keep_failed(first, count)
  for i = first, first + 3 * count - 1, 3 do
    local key, record = ARGV[i], ARGV[i + 1]
    local before = redis.call('HGET', failed_key, key)
    if record == '-' then
      if before then set_pending(key, before, 0) end
    elseif record == '' then
      redis.call('HINCRBY', state_key, 'failing', 1)
      redis.call('HDEL', failed_key, key)
      redis.call('ZREM', failures_key, key)
    else
      local number = redis.call('HINCRBY', state_key, 'failing', 1)
      local times = before and struct.unpack('<I4', before) or 0
      redis.call('HSET', failed_key, key, struct.pack('<I4B', times + 1, 0) .. record)
      redis.call('ZADD', failures_key, number, key)
    end
    trim_failures(ARGV[i + 2])
  end
end
