-- A commit of a worker, over all of its partitions: wholly, or not at all.
-- KEYS: head, owners, steps. ARGV: token, step, number of partitions, partitions;
-- number of inboxes, and of each: key, number of entries taken, digest of them;
-- then calls: command, key, number of arguments, arguments. CUT removes ranges of a
-- sorted set. Answers "done"; "again" if this step was done before; otherwise why not.
local head, owners, steps = KEYS[1], KEYS[2], KEYS[3]
local token, step, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
local begun = redis.call('HMGET', head, 'begun', 'ended')
if not begun[1] then return 'gone' end
if begun[1] ~= begun[2] then return 'torn' end
for i = 4, 3 + n do
  if redis.call('HGET', owners, ARGV[i]) ~= token then return 'not the owner' end
end
local last = redis.call('HGET', steps, token)
if last == step then return 'again' end
if tonumber(last or '-1') + 1 ~= tonumber(step) then return 'not the next step' end
local i = 5 + n
for _ = 1, tonumber(ARGV[4 + n]) do
  local taken = redis.call('LRANGE', ARGV[i], 0, tonumber(ARGV[i + 1]) - 1)
  if redis.sha1hex(table.concat(taken)) ~= ARGV[i + 2] then return 'another inbox' end
  i = i + 3
end
redis.call('HINCRBY', head, 'begun', 1)
local size = #ARGV
while i <= size do
  local call, key, k = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if call == 'CUT' then
    for j = i + 3, i + 2 + k, 2 do
      redis.call('ZREMRANGEBYLEX', key, ARGV[j], ARGV[j + 1])
    end
  elseif k == 0 then
    redis.call(call, key)
  else
    redis.call(call, key, unpack(ARGV, i + 3, i + 2 + k))
  end
  i = i + 3 + k
end
redis.call('HSET', steps, token, step)
redis.call('HSET', head, 'at', redis.call('TIME')[1])
redis.call('HINCRBY', head, 'ended', 1)
return 'done'
