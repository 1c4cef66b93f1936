-- Reads the looks of workers at the crawl, and changes nothing: see look.lua.
--
-- KEYS[1]  the head of the job
-- ARGV[1]  the time in Unix milliseconds after which to begin
--
-- Returns Redis' Unix milliseconds; the looks, by their times; and the fields and values of
-- the runs (see present.lua).

local time = redis.call('TIME')
return {
  time[1] * 1000 + math.floor(time[2] / 1000),
  redis.call('ZRANGEBYSCORE', KEYS[1] .. ':history', '(' .. ARGV[1], '+inf'),
  redis.call('HGETALL', KEYS[1] .. ':runs')
}
