-- Keeps failed requests. Begins with queue.lua.

-- Makes `count` changes, three arguments each from `first` on: the key of a request; its
-- record, or nothing if it has succeeded; and the highest number of failed requests. The
-- oldest are removed. A record follows the number of failures (4 bytes) and whether the
-- request is pending again (1 byte).
local function keep_failed(first, count)
  for i = first, first + 3 * count - 1, 3 do
    local key = ARGV[i]
    local before = redis.call('HGET', failed_key, key)
    local number = redis.call('HINCRBY', state_key, 'failing', 1)
    if ARGV[i + 1] == '' then
      redis.call('HDEL', failed_key, key)
      redis.call('ZREM', failures_key, key)
    else
      local times = before and struct.unpack('<I4', before) or 0
      redis.call('HSET', failed_key, key, struct.pack('<I4B', times + 1, 0) .. ARGV[i + 1])
      redis.call('ZADD', failures_key, number, key)
    end
    local over = redis.call('ZCARD', failures_key) - ARGV[i + 2]
    if over > 0 then
      local oldest = redis.call('ZPOPMIN', failures_key, over)
      for j = 1, #oldest, 2 do redis.call('HDEL', failed_key, oldest[j]) end
      redis.call('HINCRBY', state_key, 'forgotten', over)
    end
  end
end
