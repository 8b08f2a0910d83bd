-- Removes an item from a conversation.
-- KEYS: the three of the conversation. ARGV: the item's id.
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return NOT_FOUND end
redis.call('HDEL', KEYS[3], ARGV[1])
return 0
