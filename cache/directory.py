"""Small facts that hubs tell each other through the store: who runs where, who has which session."""

from collections.abc import Callable
from typing import Any, Final

import trio

from cache.membership import Membership
from cache.scripts import SWAP, Refused
from cache.shared import Unreachable
from cache.vault import Vault

FACT_S: Final = 0.5
"""How long an operation may take. Longer than a look in the cache: without it a host gets an error, not slowness."""
GRACE_S: Final = 1.0
"""How much longer than it lives in the store a value is believed: hubs know the store's time only about."""
_UNTIL_BYTES: Final = 8


class _Foreign(Exception):
    """No hub of this key has put it there."""


class RedisDirectory:
    """A `cache.shared.Directory`. A value that somebody else wrote there is none; `swap` does not take its place.

    In what is sealed is until when it is good: one that is put back later is none.
    """

    def __init__(self, member: Membership, vault: Vault, clock: Callable[[], float]) -> None:
        self._member = member
        self._clock = clock
        self._vault = vault

    async def get(self, name: str) -> bytes | None:
        """See `Directory.get`."""
        key = self._member.layout.fact(name)
        try:
            return self._opened(key, await self._ask(b"GET", key))
        except _Foreign:
            return None

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        """See `Directory.put`."""
        key = self._member.layout.fact(name)
        await self._ask(b"SET", key, self._sealed(key, value, ttl_s), b"PX", max(1, int(ttl_s * 1000)))
        self._member.standing.written(self._clock())

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        """See `Directory.swap`."""
        key = self._member.layout.fact(name)
        was = await self._ask(b"GET", key)
        try:
            if self._opened(key, was) != old:
                return False
        except _Foreign:
            return False
        ttl_ms = max(1, int(ttl_s * 1000))
        done = await self._ask(b"EVAL", SWAP, 1, key, was or b"", self._sealed(key, new, ttl_s), ttl_ms)
        return bool(done == 1)

    async def delete(self, name: str) -> None:
        """See `Directory.delete`."""
        await self._ask(b"DEL", self._member.layout.fact(name))

    def _sealed(self, key: str, value: bytes, ttl_s: float) -> bytes:
        until = self._member.store_us() + int(ttl_s * 1e6)
        return self._vault.seal(key, until.to_bytes(_UNTIL_BYTES) + value)

    def _opened(self, key: str, sealed: object) -> bytes | None:
        """What is kept under `key`; None: nothing, any more. Raises: _Foreign."""
        if sealed is None:
            return None
        opened = self._vault.open(key, sealed) if isinstance(sealed, bytes) else None
        if opened is None or len(opened) < _UNTIL_BYTES:
            self._member.standing.found_altered()
            raise _Foreign
        if self._member.store_us() > int.from_bytes(opened[:_UNTIL_BYTES]) + GRACE_S * 1e6:
            self._member.standing.found_altered()  # it is gone by itself then
            return None
        return opened[_UNTIL_BYTES:]

    async def _ask(self, *command: bytes | str | int) -> Any:
        link = self._member.link
        if link is None:
            raise Unreachable(f"the shared store at {self._member.standing.place} is away")
        with trio.move_on_after(FACT_S):
            try:
                return await link.ask(*command)
            except Refused as error:
                self._member.standing.refused(error.code, error.text, self._clock())
                raise
        raise Unreachable(f"the shared store at {self._member.standing.place} did not answer within {FACT_S:g} s")
