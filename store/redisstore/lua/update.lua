-- Replaces what may change of a response that has not ended.
-- KEYS: the record; the three of its conversation if the caller knows that it adds
--   to one; then index entries, which name the record.
-- ARGV: the record's id, milliseconds to live, 1 if it ends well now, the most items
--   of a conversation (0: the caller knows of none), how many fields and values
--   there are, these, then pairs of item id and data for the conversation.
-- The fields begin with the status and the epoch.
local ttl, most, fields = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local old = redis.call('HMGET', KEYS[1], 's', 'x', 'e', 'c')
if not old[1] or old[2] then return NOT_FOUND end
if tonumber(old[3]) > tonumber(ARGV[9]) then return FENCED end
if ENDED[old[1]] then
  if old[1] == ARGV[7] then return 0 end
  return FENCED
end
local k = 2
if ARGV[3] == '1' and old[4] then
  if most == 0 then return CONVERSATION end
  local bad = add(KEYS[2], KEYS[3], KEYS[4], 6 + fields, most)
  if bad ~= 0 then return bad end
  k = 5
end
redis.call('HDEL', KEYS[1], 'h', 'q', 'o', 't')
redis.call('HSET', KEYS[1], unpack(ARGV, 6, 5 + fields))
for i = k, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ttl) end
return 0
