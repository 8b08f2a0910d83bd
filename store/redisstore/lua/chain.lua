-- Walks the links of a response, from it to its oldest ancestor.
-- KEYS: the record. ARGV: what the keys of the owner's records in this shard begin
--   with, the most records, the most bytes of their bodies.
-- Returns, for each, its id, status, place and three bodies. Ancestors are in the
-- same slot, so that their keys need not be declared.
local key, id = KEYS[1], ''
local deepest, largest = tonumber(ARGV[2]), tonumber(ARGV[3])
local out, n, size = {}, 0, 0
while true do
  local v = redis.call('HMGET', key, 's', 'x', 'l', 'p', 'a', 'i', 'o')
  if not v[1] or (n == 0 and v[2]) then return NOT_FOUND end
  for i = 5, 7 do if v[i] then size = size + #v[i] end end
  if n == deepest or size > largest then return TOO_LONG end
  local at = n * 6
  out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5], out[at + 6] = id, v[1], v[4], v[5], v[6], v[7]
  if not v[3] then return out end
  n, id, key = n + 1, v[3], ARGV[1] .. v[3]
end
