-- Makes failed requests pending again. Begins with queue.lua.
--
-- For each request six arguments: its key, the number of its failures, its slot, priority
-- negated, kind (see offer.lua) and payload. It stays among the failed requests until it
-- succeeds. A request that is pending already, or has failed again or succeeded since it was
-- read, is left as it is.
--
-- Returns the number of requests that are pending now.

local requeued = 0
for i = 1, #ARGV, 6 do
  local entry = redis.call('HGET', failed_key, ARGV[i])
  if entry then
    local times, waiting, record = struct.unpack('<I4B', entry)
    if waiting == 0 and times == tonumber(ARGV[i + 1]) then
      local number = numbered(ARGV[i + 4], redis.call('HINCRBY', state_key, 'pushed', 1))
      put(ARGV[i + 2], ARGV[i + 3], number .. ARGV[i + 5])
      redis.call('HSET', failed_key, ARGV[i],
        struct.pack('<I4B', times, 1) .. string.sub(entry, record))
      redis.call('HINCRBY', state_key, 'failing', 1)
      requeued = requeued + 1
    end
  end
end
return requeued
