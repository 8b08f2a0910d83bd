-- Adds items to a conversation.
-- KEYS: the three of the conversation. ARGV: the most items, then pairs of item id and data.
return add(KEYS[1], KEYS[2], KEYS[3], 2, tonumber(ARGV[1]))
