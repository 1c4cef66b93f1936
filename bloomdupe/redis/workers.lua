-- The beginning of the scripts that ask which workers are running.
--
-- KEYS[1]  the head of the job
--
-- HEAD:workers  hash from a worker to a JSON list: the Unix milliseconds until which it is
--               running, unless it says so again; the number of partitions that it owns; the
--               number of pending requests and requests in progress there; and 1 if it
--               stays when nothing is pending

local workers_key = KEYS[1] .. ':workers'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The lists by worker, their number, and the workers of which the time is over.
local running, count, gone = {}, 0, {}
local found = redis.call('HGETALL', workers_key)
for i = 1, #found, 2 do
  local one = cjson.decode(found[i + 1])
  if one[1] > now then
    running[found[i]], count = one, count + 1
  else
    gone[#gone + 1] = found[i]
  end
end
