local size = redis.pcall('STRLEN', KEYS[1])
if type(size) ~= 'number' or size > tonumber(ARGV[1]) then return -1 end
return redis.call('GET', KEYS[1])
