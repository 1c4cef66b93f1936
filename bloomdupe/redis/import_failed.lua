-- Stores failed requests from elsewhere. Begins with queue.lua.
--
-- For each request four arguments: its key, the number of its failures, 1 if it is pending
-- again, and its record (see failed.lua). A request that is there already is left as it is.

for i = 1, #ARGV, 4 do
  local entry = struct.pack('<I4B', ARGV[i + 1], ARGV[i + 2]) .. ARGV[i + 3]
  if redis.call('HSETNX', failed_key, ARGV[i], entry) == 1 then
    local number = redis.call('HINCRBY', state_key, 'failing', 1)
    redis.call('ZADD', failures_key, number, ARGV[i])
  end
end
