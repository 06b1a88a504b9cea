"""Facts that hubs share in the store: small ones under names, such as where a hub runs and who has a session."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import trio

from cache.redis.coherence_link import StoreLink
from cache.redis.layout import READ, SWAP, CommandRefused, time_of
from cache.shared_store import MAX_FACT_BYTES, StoreUnreachable
from hub.link.sealing import OVERHEAD_BYTES

FACT_S: Final = 0.5
"""Time limit of a round trip. Longer than a look-up in the cache: without a fact a host gets an error."""
_UNTIL_BYTES: Final = 8


class _Found(NamedTuple):
    """The fact under a name, and where it lies."""

    value: bytes | None
    until: int
    """Time at which the fact expires; this and `now` are microseconds of the store's clock."""
    now: int
    mine: bytes
    """The sealed value where this hub writes; b"": none."""
    is_mine: bool
    """True if `value` lies there."""
    is_foreign: bool
    """True if the store holds a value under this name that no hub of these keys wrote."""


class SharedFacts:
    """A `cache.shared_store.Directory`. A value that no hub wrote counts as none, and `swap` does not replace it.

    While the sealing key is being replaced, a name has one place for each key, and hubs look in both. So each value
    says when it expires, and the one that expires last is the newest. A `get` copies it to the place where this hub
    writes, for hubs that know only that key.
    """

    def __init__(self, link: StoreLink) -> None:
        self._link = link

    async def get(self, name: str) -> bytes | None:
        found = await self._find(name)
        if found.value is not None and not (found.is_mine or found.is_foreign):
            await self._replace(name, found, found.value, found.until)
        return found.value

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        key = self._link.layout.fact(name)
        (now,) = await self._execute([b"TIME"])
        sealed = self._seal(key, value, time_of(now) + int(ttl_s * 1e6))
        await self._execute([b"SET", key, sealed, b"PX", max(1, int(ttl_s * 1000))])
        self._link.health.on_written(self._link.clock())

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        found = await self._find(name)
        if found.value != old or found.is_foreign:
            return False
        return await self._replace(name, found, new, max(found.until + 1, found.now + int(ttl_s * 1e6)))

    async def delete(self, name: str) -> None:
        await self._execute(*((b"DEL", layout.fact(name)) for layout in self._link.layouts))

    async def _replace(self, name: str, found: _Found, value: bytes, until: int) -> bool:
        """Replace the value that was found; False: another hub has replaced it meanwhile."""
        key = self._link.layout.fact(name)
        ttl_ms = max(1, (until - found.now) // 1000)
        (done,) = await self._execute([b"EVAL", SWAP, 1, key, found.mine, self._seal(key, value, until), ttl_ms])
        return bool(done == 1)

    def _seal(self, key: str, value: bytes, until: int) -> bytes:
        return self._link.layout.sealer.seal(key, until.to_bytes(_UNTIL_BYTES) + value)

    async def _find(self, name: str) -> _Found:
        """Raises: StoreUnreachable."""
        keys = [layout.fact(name) for layout in self._link.layouts]
        limit = MAX_FACT_BYTES + _UNTIL_BYTES + OVERHEAD_BYTES
        reads: list[Sequence[bytes | str | int]] = [[b"EVAL", READ, 1, key, limit] for key in keys]
        now, *answers = await self._execute([b"TIME"], *reads)
        newest, value, is_mine, is_foreign = 0, None, False, False
        for layout, key, sealed in zip(self._link.layouts, keys, answers, strict=True):
            if sealed is None:
                continue
            opened = layout.sealer.open(key, sealed) if isinstance(sealed, bytes) else None
            if opened is None or len(opened) < _UNTIL_BYTES:
                self._link.health.on_altered()
                is_foreign = True
                continue
            until = int.from_bytes(opened[:_UNTIL_BYTES])
            if until > newest:
                newest, value, is_mine = until, opened[_UNTIL_BYTES:], layout is self._link.layout
        mine = answers[0] if isinstance(answers[0], bytes) else b""
        return _Found(value, newest, time_of(now), mine, is_mine, is_foreign)

    async def _execute(self, *commands: Sequence[bytes | str | int]) -> list[Any]:
        if (connection := self._link.connection) is None:
            raise StoreUnreachable(f"the shared store at {self._link.health.place} is away")
        with trio.move_on_after(FACT_S):
            try:
                return await connection.execute_each(commands)
            except CommandRefused as error:
                self._link.health.on_refused(error.code, error.text, self._link.clock())
                raise
        raise StoreUnreachable(f"the shared store at {self._link.health.place} did not answer within {FACT_S:g} s")
