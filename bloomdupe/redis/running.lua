-- Reads the names of the running workers, and changes nothing. Begins with workers.lua.
--
-- Returns 1 if one of the workers stays when nothing is pending, else 0; the present Unix
-- milliseconds; then the names of the workers.

local answer = {0, now}
for worker, one in pairs(running) do
  if one[4] == 1 then answer[1] = 1 end
  answer[#answer + 1] = worker
end
return answer
