-- Whether the caller is the owner of the partition, and whether it has done this step
-- before. Begins with queue.lua; a step of the owner follows.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  its fencing token
-- ARGV[3]  number of the step, which follows the one before
--
-- An owner whose lease has run out stays the owner until somebody else takes the
-- partition. A step whose answer was lost is sent again under its number, and is not done
-- again. A number that skips one belongs to an owner who knows of steps that Redis has
-- lost: it is no owner any more.

local owner = redis.call('HMGET', state_key, 'worker', 'fence', 'step')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] then return {'lost'} end
local done_before = owner[3] == ARGV[3]
if not done_before and tonumber(owner[3]) + 1 ~= tonumber(ARGV[3]) then return {'lost'} end
