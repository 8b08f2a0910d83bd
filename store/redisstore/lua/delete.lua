-- Hides a response, and wipes it and those hidden ones before it on which nothing
-- builds any more. Their ids stay taken until they expire.
-- KEYS: the record. ARGV: what the keys of the owner's records in this shard begin with.
local key = KEYS[1]
local v = redis.call('HMGET', key, 's', 'x')
if not v[1] or v[2] then return NOT_FOUND end
redis.call('HSET', key, 'x', '1')
while true do
  v = redis.call('HMGET', key, 'x', 'k', 'l')
  if not v[1] or tonumber(v[2] or '0') > 0 then return 0 end
  redis.call('HDEL', key, 's', 'e', 'k', 'l', 'c', 'p', 'h', 'q', 'a', 'i', 'o', 't')
  if not v[3] then return 0 end
  key = ARGV[1] .. v[3]
  if redis.call('EXISTS', key) == 0 then return 0 end
  redis.call('HINCRBY', key, 'k', -1)
end
