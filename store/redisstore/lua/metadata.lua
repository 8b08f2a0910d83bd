-- Replaces the metadata of a conversation.
-- KEYS: the conversation. ARGV: the metadata.
if redis.call('EXISTS', KEYS[1]) == 0 then return NOT_FOUND end
redis.call('HSET', KEYS[1], 'm', ARGV[1])
return 0
