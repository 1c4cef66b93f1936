-- Checks whether the caller is the owner of the partition, and whether it has done this step
-- before. Begins with queue.lua; a step of the owner follows.
--
-- ARGV[1]  name of the worker
-- ARGV[2]  its fencing token
-- ARGV[3]  number of the step, the last number plus 1
--
-- When its lease has run out, the owner stays the owner until another worker takes the
-- partition. If the answer to a step was lost, the step is sent again under the same number,
-- and is not done again. If a number was skipped, Redis has lost steps of this owner: it is
-- not the owner any more.

local owner = redis.call('HMGET', state_key, 'worker', 'fence', 'step')
if owner[1] ~= ARGV[1] or owner[2] ~= ARGV[2] then return {'lost'} end
local done_before = owner[3] == ARGV[3]
if not done_before and tonumber(owner[3]) + 1 ~= tonumber(ARGV[3]) then return {'lost'} end
