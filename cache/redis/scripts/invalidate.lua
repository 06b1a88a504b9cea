if #ARGV > 2 then
    redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
else
    redis.call('UNLINK', KEYS[1])
end
return redis.call('PUBLISH', ARGV[1], ARGV[2])
