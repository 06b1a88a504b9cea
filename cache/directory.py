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


class RedisDirectory:
    """A `cache.shared.Directory`. A value that somebody else wrote there is none; `swap` does not take its place."""

    def __init__(self, member: Membership, vault: Vault, clock: Callable[[], float]) -> None:
        self._member = member
        self._clock = clock
        self._vault = vault

    async def get(self, name: str) -> bytes | None:
        """See `Directory.get`."""
        key = self._member.layout.fact(name)
        sealed = await self._ask(b"GET", key)
        if sealed is None:
            return None
        value = self._vault.open(key, sealed) if isinstance(sealed, bytes) else None
        if value is None:
            self._member.standing.found_altered()
        return value

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        """See `Directory.put`."""
        key = self._member.layout.fact(name)
        await self._ask(b"SET", key, self._vault.seal_same(key, value), b"PX", max(1, int(ttl_s * 1000)))
        self._member.standing.written(self._clock())

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        """See `Directory.swap`."""
        key = self._member.layout.fact(name)
        was = b"" if old is None else self._vault.seal_same(key, old)
        ttl_ms = max(1, int(ttl_s * 1000))
        done = await self._ask(b"EVAL", SWAP, 1, key, was, self._vault.seal_same(key, new), ttl_ms)
        return bool(done == 1)

    async def delete(self, name: str) -> None:
        """See `Directory.delete`."""
        await self._ask(b"DEL", self._member.layout.fact(name))

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
