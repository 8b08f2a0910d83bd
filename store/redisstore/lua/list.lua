-- Lists items of a conversation.
-- KEYS: the three of the conversation. ARGV: the most items (0: all), the most bytes
--   (0: no bound), the id of the item before the first one or nothing, 1 if descending.
-- Returns 1 if there are more, then ids and data in turn.
if redis.call('EXISTS', KEYS[1]) == 0 then return NOT_FOUND end
local limit, bytes, from = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
local rank, range = 'ZRANK', 'ZRANGE'
if ARGV[4] == '1' then rank, range = 'ZREVRANK', 'ZREVRANGE' end
if ARGV[3] ~= '' then
  from = redis.call(rank, KEYS[2], ARGV[3])
  if not from then return NOT_FOUND end
  from = from + 1
end
local to = -1
if limit > 0 then to = from + limit end
local ids, out, size = redis.call(range, KEYS[2], from, to), { 0 }, 0
for i, id in ipairs(ids) do
  if limit > 0 and i > limit then
    out[1] = 1
    break
  end
  local data = redis.call('HGET', KEYS[3], id)
  size = size + #data
  if bytes > 0 and size > bytes then return TOO_LONG end
  out[2 * i], out[2 * i + 1] = id, data
end
return out
