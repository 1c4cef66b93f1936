-- Says that a worker is running, or ends; counts the running workers and their work. Begins
-- with workers.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is running; 0: it ends
-- ARGV[3]  number of imports that it knows
-- ARGV[4]  1 if it stays when nothing is pending, else 0
-- ARGV[5]  the reason why it ends
-- ARGV[6]  number of partitions that it owns
-- ARGV[7]  number of pending requests and requests in progress there
-- ARGV[8]  the name that the user has given to it, which no other running worker has; or nothing
-- ARGV[9]  'read' or 'keep' the state under that name, or nothing
-- ARGV[10] the state to keep; nothing drops it
--
-- HEAD:states  hash from the name of a worker to its state, also when it is not running
--
-- A run begins with a worker when no other one is there, and ends with the last of them:
--
-- HEAD:runs  hash from the number of a run to a JSON list: its number; Unix time of its
--            beginning, and of its end, or null; and the reason of the end, or 'open'
--
-- Returns the number of running workers. How often the workers were asked to stop. The sums of
-- the partitions and of the requests of all of them. The rules that keep requests out, or
-- nothing. The state that was read, or nothing. And the present Unix milliseconds.
--
-- Or refuses the worker, and returns 0 and the milliseconds for which another worker has the
-- name; only 0 if an import is running, or was since then.

local MOST_RUNS = 500
local head, worker, name, was_there = KEYS[1], ARGV[1], ARGV[8], running[ARGV[1]]
local runs, states = head .. ':runs', head .. ':states'
for _, each in ipairs(gone) do redis.call('HDEL', workers_key, each) end
local found = redis.call('HMGET', head, 'header', 'imports', 'importing', 'runs', 'stops',
  'blocked')
if ARGV[2] == '0' then
  if was_there then
    if count == 1 and found[4] then
      local run = cjson.decode(redis.call('HGET', runs, found[4]))
      run[3], run[4] = now / 1000, ARGV[5]
      redis.call('HSET', runs, found[4], cjson.encode(run))
    end
    redis.call('HDEL', workers_key, worker)
    running[worker], count = nil, count - 1
  end
else
  if found[3] or (found[2] or '0') ~= ARGV[3] then return {0} end
  for other, one in pairs(running) do
    if name ~= '' and one[5] == name and other ~= worker then return {0, one[1] - now} end
  end
  -- A Redis that was started without its data gets no head that is made of this alone.
  if count == 0 and found[1] then
    local number = redis.call('HINCRBY', head, 'runs', 1)
    local run = {number, now / 1000, cjson.null, 'open'}
    redis.call('HSET', runs, number, cjson.encode(run))
    redis.call('HDEL', runs, number - MOST_RUNS)
  end
  local one = {now + ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[4]), name}
  redis.call('HSET', workers_key, worker, cjson.encode(one))
  running[worker], count = one, was_there and count or count + 1
end
local owned, work = 0, 0
for _, one in pairs(running) do owned, work = owned + one[2], work + one[3] end
if ARGV[9] == 'keep' then redis.call('HSET', states, name, ARGV[10]) end
local state = ARGV[9] == 'read' and redis.call('HGET', states, name) or ''
return {count, tonumber(found[5] or 0), owned, work, found[6] or '', state, now}
