"""How things lie in Redis: names, and the scripts that read and write them in one step. Pure.

Each source has one hash of tokens, random texts: `*` for all of it; for each URI `s` (it or a part of it changed) and
`d` (it itself changed, or a whole of it: the reason why its parts may have). What is kept of a resource is named by the
tokens of `*`, of `s` of itself and of `d` of all that it is a part of, at the moment before it was read. To invalidate
is to delete tokens: nobody finds what was named by them any more, and a reading that was under way puts its result
where nobody looks. So it also is when Redis evicts or loses the tokens, and deleting is allowed when it is full.

All names begin with the namespace of the hubs' key and the identity of the primary (`cache.redis.connection`). So no
hub finds data that a restart, a restored snapshot or a failover brings back, with tokens that were deleted before.
"""

from collections.abc import Iterable
from typing import Final

from cache.redis.sealed_values import ValueSealer
from cache.shared_store import Unreachable
from hub.wire.uri_parents import normalized, parents

HASH_TTL_S: Final = 3600
"""How long tokens are kept after the last one was made; nothing is kept longer under them."""
MAX_FIELDS: Final = 20_000
"""Tokens per source; more, and it begins anew, which invalidates all of it."""
MAX_DELETED: Final = 4_000
"""Tokens that are deleted one by one: a script takes fewer than 8 000 words at a time. More, and it is all of them."""
MAX_PARENTS: Final = 48
"""What is a part of more than that is not shared."""

LOOK_UP: Final = b"""
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
"""
"""KEYS: the hash. ARGV: a token to make missing ones of, bytes of the largest value, seconds, fields at most, the names
of two entries without stamp ("": none), then fields. Returns the stamp, the server's time in seconds and microseconds,
and two values: bytes, false for none, -1 for what cannot be one. An error: a missing token could not be made."""

INVALIDATE: Final = b"""
if #ARGV > 2 then
    redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
else
    redis.call('UNLINK', KEYS[1])
end
return redis.call('PUBLISH', ARGV[1], ARGV[2])
"""
"""KEYS: the hash. ARGV: the channel, the message, then the fields to delete; none: all.

It is no transaction (MULTI): a full server refuses every command in a transaction, but lets scripts delete."""

END_OF_TIME_US: Final = 1 << 53
"""In the year 2255. Later times are refused: a float could not hold them to the microsecond."""
STAMP_CHARS: Final = 40

READ: Final = b"""
local size = redis.pcall('STRLEN', KEYS[1])
if type(size) ~= 'number' or size > tonumber(ARGV[1]) then return -1 end
return redis.call('GET', KEYS[1])
"""
"""KEYS: the name. ARGV: bytes of the largest value. Returns what is there: bytes, null for none, -1 for what is too
large, or of another kind."""

SWAP: Final = b"""
local now = redis.call('GET', KEYS[1])
if now ~= (ARGV[1] ~= '' and ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
"""KEYS: the name. ARGV: what is there now ("": nothing), what is to be there, milliseconds. Returns 1: done."""


class Refused(Unreachable):
    """The server answered, with an error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        """Such as `OOM`, `READONLY`, `NOPERM`."""
        self.text = text


def invalidate_command(hash: str, fields: Iterable[str], channel: str, message: bytes) -> list[bytes | str | int]:
    """The command for `INVALIDATE`."""
    return [b"EVAL", INVALIDATE, 1, hash, channel, message, *fields]


def time_of(answer: object) -> int:
    """The server's time from an answer to `TIME`, in microseconds. Raises: Unreachable."""
    at = -1
    try:
        if isinstance(answer, list):
            seconds, microseconds = answer
            at = int(seconds) * 1_000_000 + int(microseconds)
    except (TypeError, ValueError, OverflowError):
        pass
    if not 0 <= at < END_OF_TIME_US:
        raise Unreachable("it does not say what time it is")
    return at


def look_up_command(
    hash: str, fields: list[str], names: list[str], token: str, max_bytes: int
) -> list[bytes | str | int]:
    """The command for `LOOK_UP`; `names` are two, and `token` is random."""
    return [b"EVAL", LOOK_UP, 1, hash, token, max_bytes, HASH_TTL_S, MAX_FIELDS, *names, *fields]


def read_command(key: str, max_bytes: int) -> list[bytes | str | int]:
    """The command for `READ`."""
    return [b"EVAL", READ, 1, key, max_bytes]


class Layout:
    """The names that hubs of one key use at one primary."""

    def __init__(self, sealer: ValueSealer, primary: str) -> None:
        """`primary`: see `cache.redis.connection.ConnectionPair.primary`."""
        self.sealer = sealer
        self._prefix = f"hubd:{{{sealer.namespace}}}:{primary}:"

    @property
    def channel(self) -> str:
        """What hubs tell each other."""
        return self._prefix + "bus"

    def tokens(self, source: str) -> str:
        """The hash of a source."""
        return f"{self._prefix}t:{self.sealer.digest(source)}"

    def entry(self, source: str, uri: str, owner: str, abilities: str) -> str:
        """What is kept of a resource, to be followed by the stamp."""
        return f"{self._prefix}e:{self.sealer.digest(source, uri, owner, abilities)}:"

    def fact(self, name: str) -> str:
        """One name of the directory."""
        return f"{self._prefix}d:{self.sealer.digest(name)}"

    def token_fields(self, uri: str) -> list[str] | None:
        """The fields whose tokens name what is kept of `uri`; None: it cannot be shared."""
        plain = normalized(uri)
        above = list(dict.fromkeys(parents(plain or "")))
        if plain is None or len(above) > MAX_PARENTS:
            return None
        return ["*", "s" + self.sealer.digest(plain), *("d" + self.sealer.digest(whole) for whole in above)]

    def voided_fields(self, uri: str) -> list[str]:
        """The fields to delete when `uri` changed, whose parts and wholes are known (`cache.index.is_followed`): its
        own, and those of all that it is a part of."""
        plain = normalized(uri) or uri
        own = self.sealer.digest(plain)
        above = dict.fromkeys(parents(plain))
        return ["s" + own, "d" + own, *("s" + self.sealer.digest(whole) for whole in above)]

    def fields(self, uris: Iterable[str]) -> dict[str, None]:
        """The same of many, each once."""
        return dict.fromkeys(field for uri in uris for field in self.voided_fields(uri))
