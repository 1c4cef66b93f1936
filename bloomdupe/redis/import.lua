-- Stores the progress of an import into a frontier. Begins with workers.lua.
--
-- ARGV[1]  'begin', 'keep' or 'end'; or 'remove', which begins as an import does, and may do so
--          though the memory of Redis is full: it makes room
-- ARGV[2]  the note with the progress
-- ARGV[3]  the number of the import, which 'begin' has returned
--
-- present.lua refuses all workers until the import has ended, and after it the workers that
-- had started before. Returns the number of the import; 0 if another import has begun
-- meanwhile; or, if workers are running, their number negated: then the import does not
-- begin.

local head = KEYS[1]
if ARGV[1] == 'begin' or ARGV[1] == 'remove' then
  if count > 0 then return -count end
  -- After a command that only removes, Redis takes all commands of a script.
  if ARGV[1] == 'remove' then redis.call('HDEL', head, 'import') end
  redis.call('HSET', head, 'importing', 1, 'import', ARGV[2])
  return redis.call('HINCRBY', head, 'imports', 1)
end
if redis.call('HGET', head, 'imports') ~= ARGV[3] then return 0 end
redis.call('HSET', head, 'import', ARGV[2])
if ARGV[1] == 'end' then redis.call('HDEL', head, 'importing') end
return tonumber(ARGV[3])
