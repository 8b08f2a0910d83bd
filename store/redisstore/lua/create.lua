-- Keeps a new response.
-- KEYS: the record; its parent if any; the three of its conversation if it adds to
--   one; then index entries, which name the record.
-- ARGV: the record's id, milliseconds to live, 1 if there is a parent, the most
--   items of a conversation (0: it adds to none), how many fields and values there
--   are, these, then pairs of item id and data for the conversation.
local ttl, most, fields = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local k, parent = 2, nil
if ARGV[3] == '1' then
  parent, k = KEYS[2], 3
  local p = redis.call('HMGET', parent, 's', 'x')
  if not p[1] or p[2] then return LINK_GONE end
end
if most > 0 then
  local bad = add(KEYS[k], KEYS[k + 1], KEYS[k + 2], 6 + fields, most)
  if bad ~= 0 then return bad end
  k = k + 3
end
if parent then redis.call('HINCRBY', parent, 'k', 1) end
redis.call('HSET', KEYS[1], unpack(ARGV, 6, 5 + fields))
redis.call('PEXPIRE', KEYS[1], ttl)
for i = k, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ttl) end
return 0
