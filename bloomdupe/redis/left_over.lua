-- Counts the requests that no worker can do now, in all partitions at one moment; changes
-- nothing.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  number of partitions
-- ARGV[2]  number of the partition to begin with
--
-- Returns the number of a partition with any other request. Or, if there is none, -1; the numbers
-- of requests that their owners have left, of those among them that cannot be restored, and of
-- requests scheduled for later; and the milliseconds until the first of these is due, or 0.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left, aside, later, due = 0, 0, 0, 0
for i = 0, ARGV[1] - 1 do
  local number = (ARGV[2] + i) % ARGV[1]
  local head = KEYS[1] .. ':' .. number
  if redis.call('EXISTS', head) == 0 then
    return redis.error_reply('GONE there is no such partition')
  end
  local here = redis.call('HLEN', head .. ':left')
  if redis.call('EXISTS', head .. ':slots') == 1
      or redis.call('HLEN', head .. ':leased') > here then
    return {number}
  end
  left = left + here
  aside = aside + redis.call('HLEN', head .. ':aside')
  local first = redis.call('ZRANGE', head .. ':later', 0, 0, 'WITHSCORES')
  if #first > 0 then
    if later == 0 or first[2] - now < due then due = first[2] - now end
    later = later + redis.call('ZCARD', head .. ':later')
  end
end
return {-1, left, aside, later, due}
