-- Keeps the state of slots. Begins with queue.lua.

-- Keeps `count` states, three arguments each from `first` on: the slot; its state, or nothing
-- to drop it; and the milliseconds for which it is kept though no request of the slot is
-- pending, or -1 if the owner has further requests of the slot. A few states are
-- dropped whose time has come.
local function keep_states(first, count)
  local time = count > 0 and now()
  for i = first, first + 3 * count - 1, 3 do
    local slot, left = ARGV[i], tonumber(ARGV[i + 2])
    local ends = time + left
    if left < 0 or redis.call('ZSCORE', slots_key, slot) then ends = '+inf' end
    if ARGV[i + 1] ~= '' then
      redis.call('HSET', about_key, slot, ARGV[i + 1])
      redis.call('ZADD', ends_key, ends, slot)
    else
      redis.call('ZADD', ends_key, 0, slot)
    end
  end
  if count > 0 then
    local over = redis.call('ZRANGEBYSCORE', ends_key, '-inf', time, 'LIMIT', 0, 3 * count)
    for _, slot in ipairs(over) do
      redis.call('HDEL', about_key, slot)
      redis.call('ZREM', ends_key, slot)
    end
  end
end
