"""Layout of the store in Redis: names, sealed values, and the scripts that read and write atomically (`scripts/`).
Pure, except for random numbers.

Each source has one hash of tokens, random texts: `*` for all of it; for each URI `s` (the resource or a part of it
changed) and `d` (the resource or a parent of it changed, so that its parts may have changed). The name of an entry
holds the tokens of `*`, of `s` of its own URI and of `d` of all parents, as they were just before the read. To
invalidate is to delete tokens: no hub finds the entries named by them any more, and a read under way puts its result
where no hub looks. The same happens when Redis evicts or loses tokens; and deleting is allowed when Redis is full.

All names begin with the namespace of the hubs' key and the identity of the primary (`cache.redis.connection_pair`). So
no hub finds data that a restart, a restored snapshot or a failover brings back, with tokens that were deleted before.

Names reveal nothing. A value is sealed with AES-256-GCM under the name it is kept by: a changed, moved or foreign value
does not open. All keys are derived from the one key that hubs share.
"""

import hmac
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Final

from cache.shared_store import StoreUnreachable
from hub.link.sealing import Cipher, join_apart
from hub.wire.normalize_uri import normalize
from hub.wire.uri_hierarchy import parents

HASH_TTL_S: Final = 3600
"""Lifetime of tokens after the last one was made; no entry lives longer."""
MAX_FIELDS: Final = 20_000
"""Tokens per source; with more, all are deleted, which invalidates all of the source."""
MAX_DELETED: Final = 4_000
"""Tokens deleted one by one, since a script takes fewer than 8 000 arguments; with more, all are deleted."""
MAX_PARENTS: Final = 48
"""A resource with more parents is not shared."""


def _script(name: str) -> bytes:
    return Path(__file__).with_name("scripts").joinpath(f"{name}.lua").read_bytes()


LOOK_UP: Final = _script("look_up")
"""KEYS: the hash. ARGV: a token in place of missing ones, bytes of the largest value, lifetime of the hash in seconds,
most fields of the hash, the names of two entries without stamp ("": none), then fields. Returns the stamp, the server's
time in seconds and microseconds, and two values: bytes, false for none, -1 for a value of another type or too large. An
error: a missing token could not be written."""

INVALIDATE: Final = _script("invalidate")
"""KEYS: the hash. ARGV: the channel, the message, then the fields to delete; none: all.

It is no transaction (MULTI): a full server refuses every command in a transaction, but lets scripts delete."""

END_OF_TIME_US: Final = 1 << 53
"""In the year 2255. Later times are refused: a float could not hold them to the microsecond."""

READ: Final = _script("read")
"""KEYS: the name. ARGV: bytes of the largest value. Returns the value: bytes, null for none, -1 for one that is too
large or of another type."""

SWAP: Final = _script("swap")
"""KEYS: the name. ARGV: the present value ("": none), the new value, its lifetime in milliseconds. Returns 1: done, 0:
another value is there."""


class CommandRefused(StoreUnreachable):
    """The server answered with an error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        """Such as `OOM`, `READONLY`, `NOPERM`."""
        self.text = text


def time_of(answer: object) -> int:
    """The server's time from an answer to `TIME`, in microseconds. Raises: StoreUnreachable."""
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(answer, list):
            seconds, microseconds = answer
            at = int(seconds) * 1_000_000 + int(microseconds)
            if 0 <= at < END_OF_TIME_US:
                return at
    raise StoreUnreachable("it does not tell the time")


def look_up_command(
    hash: str, fields: list[str], names: list[str], token: str, max_bytes: int
) -> list[bytes | str | int]:
    """The command for `LOOK_UP`; `names` are two, and `token` is random."""
    return [b"EVAL", LOOK_UP, 1, hash, token, max_bytes, HASH_TTL_S, MAX_FIELDS, *names, *fields]


class ValueSealer:
    """Names and seals by one key."""

    def __init__(self, key: bytes) -> None:
        self._names = _derive(key, b"names")
        self._values = Cipher(_derive(key, b"values"))
        self.namespace = _derive(key, b"namespace").hex()[:16]
        """Common to hubs of this key, and to no others. Not secret."""

    def digest(self, *parts: str) -> str:
        """A short text that stands for `parts` and reveals nothing of them."""
        return blake2b(join_apart(parts), key=self._names, digest_size=12).hexdigest()

    def seal(self, name: str, value: bytes) -> bytes:
        """Seal `value` under `name`; never twice the same."""
        return self._values.seal(value, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """Open a value that was sealed under `name`; None: it was not."""
        return self._values.open(sealed, name.encode())


class Layout:
    """Names that hubs of one key use at one primary."""

    def __init__(self, sealer: ValueSealer, primary: str) -> None:
        """`primary`: see `cache.redis.connection_pair.ConnectionPair.primary`."""
        self.sealer = sealer
        self._prefix = f"hubd:{{{sealer.namespace}}}:{primary}:"

    @property
    def channel(self) -> str:
        return self._prefix + "bus"

    def tokens(self, source: str) -> str:
        return f"{self._prefix}t:{self.sealer.digest(source)}"

    def entry(self, source: str, uri: str, owner: str, abilities: str) -> str:
        """The name of an entry, to be followed by the stamp."""
        return f"{self._prefix}e:{self.sealer.digest(source, uri, owner, abilities)}:"

    def fact(self, name: str) -> str:
        return f"{self._prefix}d:{self.sealer.digest(name)}"

    def token_fields(self, uri: str) -> list[str] | None:
        """The fields whose tokens name entries of `uri`; None: it cannot be shared."""
        plain = normalize(uri)
        above = list(dict.fromkeys(parents(plain or "")))
        if plain is None or len(above) > MAX_PARENTS:
            return None
        return ["*", "s" + self.sealer.digest(plain), *("d" + self.sealer.digest(whole) for whole in above)]

    def fields_to_delete(self, uris: Iterable[str]) -> dict[str, None]:
        """The fields to delete when these URIs changed, each once: their own, and those of all parents, which must be
        known (`cache.resource_index.is_trackable`)."""
        found: dict[str, None] = {}
        for plain in (normalize(uri) or uri for uri in uris):
            own, above = self.sealer.digest(plain), map(self.sealer.digest, parents(plain))
            found |= dict.fromkeys(["s" + own, "d" + own, *("s" + whole for whole in above)])
        return found


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"hubd shared store 3: " + purpose, sha256)
