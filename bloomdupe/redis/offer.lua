-- Accepts requests: requests with new fingerprints become pending. Begins with layers.lua,
-- mark.lua and queue.lua.
--
-- After the arguments of layers.lua, for each request of the batch: slot, priority negated,
-- kind and payload. The kind is the first byte of the number: among requests of the same
-- priority, those of kind a or b have their turn before those of c or d.
--   a, c  newest first
--   b, d  oldest first
-- A kind may be followed by the limits of its slot: a comma, the highest number of requests
-- that were ever counted, another comma, and the highest number of pending requests; and then
-- by the time for which it is scheduled (see queue.lua).
--
-- Returns the same as add.lua; a request that is refused, and not marked, has '2' if its slot
-- has reached the first limit, and '3' if it has reached the second one. Any worker may offer a request, and may offer it again: an
-- accepted request counts as seen.

local pages_key = KEYS[1] .. ':pages'

-- Returns the flag of a request that its slot has no room for, or nothing if it has, and
-- then counts the request.
local function refusal(slot, most_pages, most_pending)
  if tonumber(redis.call('HGET', pages_key, slot) or 0) >= tonumber(most_pages) then
    return '2'
  end
  if redis.call('ZCARD', queue_key .. slot) >= tonumber(most_pending) then return '3' end
  redis.call('HINCRBY', pages_key, slot, 1)
end

local field = 2 * count + 6
for offset = 1, #batch, size do
  local where = read(offset)
  if seen(where) then
    flags[#flags + 1] = '0'
  elseif is_full() then
    state = 'full'
    break
  else
    local kind, refused = ARGV[field + 2], nil
    if #kind > 1 then
      local most_pages, most_pending = string.match(kind, '^.,(%d+),(%d+)')
      if most_pages then refused = refusal(ARGV[field], most_pages, most_pending) end
    end
    if not refused then
      -- It is put into the queue before it is marked: if Redis refuses one of the two
      -- commands, the request is done twice, and not lost.
      push(ARGV[field], ARGV[field + 1], kind, ARGV[field + 3])
      mark(where)
      added = added + 1
    end
    flags[#flags + 1] = refused or '1'
  end
  field = field + 4
end
return answer()
