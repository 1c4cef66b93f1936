-- Says that a worker is running, or ends; counts the running workers and their work. Begins
-- with workers.lua.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  milliseconds for which it is running; 0: it ends
-- ARGV[3]  `born` of the head, as it knows it
-- ARGV[4]  1 if it stays when nothing is pending, else 0
-- ARGV[5]  the reason why it ends
-- ARGV[6]  number of partitions that it owns
-- ARGV[7]  number of pending requests and requests in progress there
-- ARGV[8]  number of the round that it works on; 'again': a new one, if the last worker of the
--          last one to end by itself gave the reason 'finished'; 0: it does not know
--
-- A run begins with a worker when no other one is there, and ends with the last of them:
--
-- HEAD:runs  hash from the number of a run to a JSON list: its number; Unix time of its
--            beginning, and of its end, or null; and the reason of the end, or 'open'
--
-- Returns the number of running workers. How often the workers were asked to stop. The sums of
-- the partitions and of the requests of all of them. The rules that keep requests out, or
-- nothing. The present Unix milliseconds. And the number of the round.
--
-- Or refuses the worker, and returns only 0, if the crawl is being removed, or the head is another
-- one.

local MOST_RUNS = 500
local head, worker, was_there = KEYS[1], ARGV[1], running[ARGV[1]]
local runs = head .. ':runs'
for _, each in ipairs(gone) do redis.call('HDEL', workers_key, each) end
local found = redis.call('HMGET', head, 'header', 'born', 'runs', 'stops', 'blocked', 'round',
  'finished')
-- A Redis that was started without its data gets no head that is made of this alone.
local is_there, round = found[1], tonumber(found[6] or 1)
if ARGV[2] == '0' then
  if was_there then
    if is_there and ARGV[5] == 'finished' then redis.call('HSET', head, 'finished', round) end
    if count == 1 and found[3] then
      local run = cjson.decode(redis.call('HGET', runs, found[3]))
      run[3], run[4] = now / 1000, ARGV[5]
      redis.call('HSET', runs, found[3], cjson.encode(run))
    end
    redis.call('HDEL', workers_key, worker)
    running[worker], count = nil, count - 1
  end
else
  if found[2] ~= ARGV[3] then return {0} end
  if is_there and count == 0 then
    if ARGV[8] == 'again' and tonumber(found[7] or 0) == round then
      round = round + 1
      redis.call('HSET', head, 'round', round)
      -- The changes are counted on: a worker that was stopped meanwhile knows some.
      local news = head .. ':news'
      local changes = redis.call('HGET', news, 'changes')
      redis.call('DEL', news, news .. ':order')
      if changes then redis.call('HSET', news, 'changes', changes) end
    end
    local number = redis.call('HINCRBY', head, 'runs', 1)
    local run = {number, now / 1000, cjson.null, 'open'}
    redis.call('HSET', runs, number, cjson.encode(run))
    redis.call('HDEL', runs, number - MOST_RUNS)
  end
  -- There are fewer if Redis has lost one.
  if is_there and (tonumber(ARGV[8]) or 0) > round then
    round = tonumber(ARGV[8])
    redis.call('HSET', head, 'round', round)
  end
  -- A worker has ended, and this one goes on.
  if tonumber(found[7] or 0) == round then redis.call('HDEL', head, 'finished') end
  local one = {now + ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[4])}
  redis.call('HSET', workers_key, worker, cjson.encode(one))
  running[worker], count = one, was_there and count or count + 1
end
local owned, work = 0, 0
for _, one in pairs(running) do owned, work = owned + one[2], work + one[3] end
return {count, tonumber(found[4] or 0), owned, work, found[5] or '', now, round}
