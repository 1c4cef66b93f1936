-- Makes failed requests pending again. Begins with queue.lua and failed.lua.
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
    local times, waiting = struct.unpack('<I4B', entry)
    if waiting == 0 and times == tonumber(ARGV[i + 1]) then
      push(ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
      set_pending(ARGV[i], entry, 1)
      requeued = requeued + 1
    end
  end
end
return requeued
