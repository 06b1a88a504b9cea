"""Small facts that hubs tell each other through the store: who runs where, who has which session."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import trio

from cache.redis.layout import END_OF_TIME_US, SWAP, Refused, read_command
from cache.redis.member import Member
from cache.redis.sealed_values import OVERHEAD_BYTES
from cache.shared_store import MAX_FACT_BYTES, Unreachable

FACT_S: Final = 0.5
"""How long an operation may take. Longer than a look in the cache: without it a host gets an error, not slowness."""
GRACE_S: Final = 1.0
"""How much longer than it lives in the store a value is believed: hubs know the store's time only about."""
_UNTIL_BYTES: Final = 8


class _Found(NamedTuple):
    """What there is of a name."""

    value: bytes | None
    until: int
    """Microseconds of the store's clock."""
    mine: bytes
    """What lies where this hub writes; b"": nothing."""
    is_mine: bool
    """Whether the value lies there."""
    is_foreign: bool
    """Whether there is something that no hub of these keys has put there."""


class RedisDirectory:
    """A `cache.shared_store.Directory`. A value that somebody else wrote there is none; `swap` does not take its place.

    In what is sealed is until when it is good: one that is put back later is none. While the key is being replaced,
    what hubs of the other key say is looked for, too, and the newest counts; it is also put where this one writes, for
    hubs that know only this key.
    """

    def __init__(self, member: Member, clock: Callable[[], float]) -> None:
        self._member = member
        self._clock = clock

    async def get(self, name: str) -> bytes | None:
        """See `Directory.get`."""
        found = await self._find(name)
        if found.value is not None and not (found.is_mine or found.is_foreign):
            await self._replace(name, found, found.value, found.until)
        return found.value

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        """See `Directory.put`."""
        key = self._member.layout.fact(name)
        until = self._member.store_time_us() + int(ttl_s * 1e6)
        await self._ask([b"SET", key, self._sealed(key, value, until), b"PX", max(1, int(ttl_s * 1000))])
        self._member.health.on_written(self._clock())

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        """See `Directory.swap`."""
        found = await self._find(name)
        if found.value != old or found.is_foreign:
            return False
        until = max(found.until + 1, self._member.store_time_us() + int(ttl_s * 1e6))
        return await self._replace(name, found, new, until)

    async def delete(self, name: str) -> None:
        """See `Directory.delete`."""
        await self._ask(*((b"DEL", layout.fact(name)) for layout in self._member.layouts))

    async def _replace(self, name: str, found: _Found, value: bytes, until: int) -> bool:
        """Put `value` in the place of what was found; whether that is still there."""
        key = self._member.layout.fact(name)
        ttl_ms = max(1, (until - self._member.store_time_us()) // 1000)
        (done,) = await self._ask([b"EVAL", SWAP, 1, key, found.mine, self._sealed(key, value, until), ttl_ms])
        return bool(done == 1)

    def _sealed(self, key: str, value: bytes, until: int) -> bytes:
        until = min(until, END_OF_TIME_US)  # a hub that believed a server may have put there any number
        return self._member.layout.sealer.seal(key, until.to_bytes(_UNTIL_BYTES) + value)

    async def _find(self, name: str) -> _Found:
        """Raises: Unreachable."""
        keys = [layout.fact(name) for layout in self._member.layouts]
        answers = await self._ask(*(read_command(key, MAX_FACT_BYTES + _UNTIL_BYTES + OVERHEAD_BYTES) for key in keys))
        newest, value, is_mine, is_foreign = 0, None, False, False
        for layout, key, sealed in zip(self._member.layouts, keys, answers, strict=True):
            if sealed is None:
                continue
            opened = layout.sealer.open(key, sealed) if isinstance(sealed, bytes) else None
            if opened is None or len(opened) < _UNTIL_BYTES:
                self._member.health.on_altered()
                is_foreign = True
                continue
            until = int.from_bytes(opened[:_UNTIL_BYTES])
            if self._member.store_time_us() > until + GRACE_S * 1e6:
                self._member.health.on_altered()  # it is gone by itself then
            elif until > newest:
                newest, value, is_mine = until, opened[_UNTIL_BYTES:], layout is self._member.layout
        mine = answers[0] if isinstance(answers[0], bytes) else b""
        return _Found(value, newest, mine, is_mine, is_foreign)

    async def _ask(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        connection = self._member.connection
        if connection is None:
            raise Unreachable(f"the shared store at {self._member.health.place} is away")
        with trio.move_on_after(FACT_S):
            try:
                return await connection.ask_each(commands)
            except Refused as error:
                self._member.health.on_refused(error.code, error.text, self._clock())
                raise
        raise Unreachable(f"the shared store at {self._member.health.place} did not answer within {FACT_S:g} s")
