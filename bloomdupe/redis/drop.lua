-- Removes pending requests of a slot. Begins with queue.lua.
--
-- ARGV[1]  the slot
-- then for each request its number with its payload; and the key of the failed request that
-- it repeats, or nothing: that one is not pending again then
--
-- Returns the number of requests that were removed. All others are not pending any more.

local slot, dropped = ARGV[1], 0
for i = 2, #ARGV, 2 do
  if redis.call('ZREM', queue_key .. slot, ARGV[i]) == 1 then
    dropped = dropped + 1
    local entry = ARGV[i + 1] ~= '' and redis.call('HGET', failed_key, ARGV[i + 1])
    if entry then
      local times, _, record = struct.unpack('<I4B', entry)
      redis.call('HSET', failed_key, ARGV[i + 1],
        struct.pack('<I4B', times, 0) .. string.sub(entry, record))
      redis.call('HINCRBY', state_key, 'failing', 1)
    end
  end
end
if redis.call('EXISTS', queue_key .. slot) == 0 then redis.call('ZREM', slots_key, slot) end
if dropped > 0 then redis.call('HINCRBY', state_key, 'dropped', dropped) end
return dropped
