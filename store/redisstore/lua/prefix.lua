-- Finds the last of several marks that a visible record has.
-- KEYS: the marker of the shard. ARGV: what the keys of the owner's marks in this
--   shard begin with, likewise of the records, the last millisecond that is too old,
--   and the hashes, 32 bytes each.
-- Returns the number of the mark, the record's id, its place and its marks.
local marks, records, old, hashes = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local last = #hashes / 32
while last > 0 do
  local first, keys = math.max(last - 999, 1), {}
  for n = first, last do keys[#keys + 1] = marks .. string.sub(hashes, n * 32 - 31, n * 32) end
  local ids = redis.call('MGET', unpack(keys))
  for n = last, first, -1 do
    local id = ids[n - first + 1]
    local made = id and tonumber(string.match(id, '_(%x%x%x%x%x%x%x%x%x%x%x%x)'), 16)
    if made and made > old then
      local v = redis.call('HMGET', records .. id, 's', 'x', 'p', 't')
      -- An update may have taken the mark from the record again.
      if v[1] and not v[2] and v[4] then
        local hash = string.sub(hashes, n * 32 - 31, n * 32)
        for at = 1, #v[4], 36 do
          if string.sub(v[4], at, at + 31) == hash then return { n - 1, id, v[3], string.sub(v[4], at + 32, at + 35) } end
        end
      end
    end
  end
  last = first - 1
end
return NOT_FOUND
