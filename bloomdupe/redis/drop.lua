-- Removes pending requests. Begins with queue.lua and failed.lua.
--
-- For each request three arguments: its slot; its member of HEAD:queue:SLOT or of HEAD:later;
-- and the key of the failed request that it repeats, or nothing: that one is not pending again
-- then.
--
-- Returns the number of requests that were removed. The others are not there any more.

local dropped, later = 0, 0
for i = 1, #ARGV, 3 do
  local slot, member, key = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local gone = redis.call('ZREM', queue_key .. slot, member)
  if gone == 1 then
    dropped = dropped + 1
    if redis.call('EXISTS', queue_key .. slot) == 0 then redis.call('ZREM', slots_key, slot) end
  else
    gone = redis.call('ZREM', later_key, member)
    later = later + gone
  end
  local entry = gone == 1 and key ~= '' and redis.call('HGET', failed_key, key)
  if entry then set_pending(key, entry, 0) end
end
if dropped > 0 then redis.call('HINCRBY', state_key, 'dropped', dropped) end
return dropped + later
