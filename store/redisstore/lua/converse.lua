-- Makes a conversation with its first items.
-- KEYS: the three of the conversation. ARGV: the metadata, the most items, then pairs
--   of item id and data.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'n', 0, 'm', ARGV[1])
local bad = add(KEYS[1], KEYS[2], KEYS[3], 3, tonumber(ARGV[2]))
if bad ~= 0 then redis.call('DEL', KEYS[1]) end
return bad
