-- add appends the pairs of item id and data in ARGV, from the given place on, to a
-- conversation: all that are new to it, or none. It returns 0, or what is wrong.
local function add(meta, order, data, from, most)
  if redis.call('EXISTS', meta) == 0 then return NOT_FOUND end
  local fresh, seen = {}, {}
  for i = from, #ARGV, 2 do
    local id = ARGV[i]
    if not seen[id] and not redis.call('ZSCORE', order, id) then
      seen[id] = true
      fresh[#fresh + 1] = i
    end
  end
  if #fresh == 0 then return 0 end
  if redis.call('ZCARD', order) + #fresh > most then return TOO_LONG end
  local at = redis.call('HINCRBY', meta, 'n', #fresh) - #fresh
  for n, i in ipairs(fresh) do
    redis.call('ZADD', order, at + n, ARGV[i])
    redis.call('HSET', data, ARGV[i], ARGV[i + 1])
  end
  return 0
end
