-- One moment of a crawl. KEYS: head, owners, steps, heartbeats, counts, rules. ARGV: keys of
-- the inboxes. Returns fields of the first five, the rules, and the lengths of the
-- inboxes.
local lengths = {}
for i = 1, #ARGV do lengths[i] = redis.call('LLEN', ARGV[i]) end
return {
  redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]),
  redis.call('HGETALL', KEYS[3]), redis.call('HGETALL', KEYS[4]),
  redis.call('HGETALL', KEYS[5]), redis.call('GET', KEYS[6]), lengths,
}
