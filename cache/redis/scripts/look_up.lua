local tokens = redis.call('HMGET', KEYS[1], unpack(ARGV, 7))
local missing = {}
for i = 1, #tokens do
    if not tokens[i] then
        tokens[i] = ARGV[1]
        missing[#missing + 1] = ARGV[i + 6]
        missing[#missing + 1] = ARGV[1]
    end
end
if #missing > 0 then
    if redis.call('HLEN', KEYS[1]) + #missing / 2 > tonumber(ARGV[4]) then
        redis.call('DEL', KEYS[1])
        missing = {}
        for i = 1, #tokens do
            tokens[i] = ARGV[1]
            missing[#missing + 1] = ARGV[i + 6]
            missing[#missing + 1] = ARGV[1]
        end
    end
    local set = redis.pcall('HSET', KEYS[1], unpack(missing))
    if type(set) == 'table' and set.err then return set end
    redis.call('EXPIRE', KEYS[1], ARGV[3])
end
local stamp = redis.sha1hex(table.concat(tokens, ' '))
local time = redis.call('TIME')
local found = {stamp, time[1], time[2]}
for i = 5, 6 do
    local value = false
    if ARGV[i] ~= '' and #missing == 0 then
        local size = redis.pcall('STRLEN', ARGV[i] .. stamp)
        if type(size) ~= 'number' or size > tonumber(ARGV[2]) then
            value = -1
        elseif size > 0 then
            value = redis.call('GET', ARGV[i] .. stamp)
        end
    end
    found[#found + 1] = value
end
return found
