-- Gives partitions to a worker, each from the owner that the worker has seen.
-- KEYS: head, owners, steps. ARGV: token of the worker, token that it had before or
-- nothing, then by partition: number, token of its owner or nothing.
-- Returns the numbers of those that the worker has now, or 'gone' or 'torn'.
local head, owners, steps = KEYS[1], KEYS[2], KEYS[3]
local begun = redis.call('HMGET', head, 'begun', 'ended')
if not begun[1] then return 'gone' end
if begun[1] ~= begun[2] then return 'torn' end
redis.call('HSETNX', steps, ARGV[1], 0)
local taken = {}
for i = 3, #ARGV, 2 do
  local owner = redis.call('HGET', owners, ARGV[i]) or ''
  if owner == ARGV[i + 1] then redis.call('HSET', owners, ARGV[i], ARGV[1]) end
  if owner == ARGV[i + 1] or owner == ARGV[1] then taken[#taken + 1] = ARGV[i] end
end
if ARGV[2] ~= '' then redis.call('HDEL', steps, ARGV[2]) end
return taken
