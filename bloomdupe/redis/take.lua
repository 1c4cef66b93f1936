-- Makes a worker the owner of a partition, if the partition has no owner, or the owner's
-- lease has run out, or the worker is the owner and does not know it. Begins with queue.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is the owner; 0: changes nothing
-- ARGV[3]  its fencing token, drawn at random
-- ARGV[4]  1: also if another worker is the owner, and its lease has run out
--
-- Returns 1, or 0 if another worker is the owner; the number of pending requests and requests
-- in progress; the milliseconds since the last owner may have sent a request whose time is not
-- known, or -1 if there is no such request; the keys of the failed requests, the oldest first;
-- and the fields and values of the counts. The requests in progress on the last owner are
-- pending again, and its token is no longer valid.

local owner = redis.call('HMGET', state_key, 'worker', 'until', 'fence', 'idle', 'unknown')
local now = now()
local others = owner[1] and owner[1] ~= '' and owner[1] ~= ARGV[1]
if others and (ARGV[4] ~= '1' or tonumber(owner[2]) > now) then
  return {0, 0, 0, {}, {}}
end
if ARGV[2] == '0' then return {1, work(), 0, {}, {}} end
local unknown = owner[5]
if owner[2] and owner[3] ~= owner[4] then
  unknown = math.min(now, tonumber(owner[2]))
  redis.call('HSET', state_key, 'unknown', unknown)
end
local since = unknown and now - unknown or -1
redis.call('HSET', state_key, 'worker', ARGV[1], 'until', now + ARGV[2],
  'fence', ARGV[3], 'step', 0, 'handed', '')
put_back()
return {
  1, work(), since, redis.call('ZRANGE', failures_key, 0, -1), redis.call('HGETALL', totals_key)
}
