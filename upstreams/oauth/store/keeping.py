"""The store for tasks: each method does its work in a thread, and a new sign-in takes its turn among processes that may
be renewing the one before it."""

from collections.abc import Callable
from typing import TypeVar

import trio
from msgspec.structs import replace

from upstreams.oauth.model import Grant, GrantKey
from upstreams.oauth.store.facts import Facts
from upstreams.oauth.store.grant_store import CannotOpen, GrantStore

R = TypeVar("R")


class Keeper:
    """The store as the flow of a sign-in uses it; `store` may block when it is called first.

    Raises:
        OAuthProblem: something cannot be read or kept.
        OAuthUnavailable: the key is locked, or another process has a grant for too long.
    """

    def __init__(self, store: Callable[[], GrantStore]) -> None:
        self._store = store

    def __repr__(self) -> str:
        return "<Keeper>"

    async def find(self, upstream: str, principal: str) -> Grant | None:
        """The grant that is used; None: there is none, or none that can be opened."""
        try:
            return await _in_thread(lambda: self._store().find(upstream, principal))
        except CannotOpen:
            return None

    async def save(self, grant: Grant) -> None:
        """Keep the grant of a new sign-in; durable when this returns."""
        await self.keep(grant)

    async def keep(self, grant: Grant) -> Grant:
        """As `save`; the grant as it is kept: other processes know it for a new one by its generation."""
        store = await _in_thread(self._store)
        async with store.lock(grant.key) as held:

            def keep_here() -> Grant:
                try:
                    before = store.load(grant.key)
                except CannotOpen:
                    before = None
                new = grant if before is None else replace(grant, generation=before.generation + 1)
                store.save(new)
                held.finish()
                return new

            return await _in_thread(keep_here)

    async def keys(self) -> list[GrantKey]:
        """The keys of all grants that are kept and can be opened."""

        def keys() -> list[GrantKey]:
            files = [each.file for each in self._store().grants() if each.is_readable]
            return [GrantKey(file.issuer, file.resource, file.upstream, file.principal) for file in files]

        return await _in_thread(keys)

    async def redirect_number(self, issuer: str) -> int:
        """The number of the redirect URI that this issuer alone has."""
        return await self._of_facts(lambda facts: facts.redirect_number(issuer))

    async def only_for(self, uri: str, issuer: str) -> str:
        """The issuer that alone answers at a configured redirect URI: `issuer`, unless there is one already."""
        return await self._of_facts(lambda facts: facts.only_for(uri, issuer))

    async def port(self) -> int | None:
        """The port that was picked once for browsers to come back to."""
        return await self._of_facts(lambda facts: facts.port())

    async def keep_port(self, port: int) -> None:
        """Keep that port."""
        await self._of_facts(lambda facts: facts.keep_port(port))

    async def is_agreed(self, upstream: str, principal: str, issuer: str) -> bool:
        """True if the person has said yes to this issuer for this upstream."""
        return await self._of_facts(lambda facts: facts.is_agreed(upstream, principal, issuer))

    async def agree(self, upstream: str, principal: str, issuer: str) -> None:
        """Keep that the person said yes."""
        await self._of_facts(lambda facts: facts.agree(upstream, principal, issuer))

    async def _of_facts(self, ask: Callable[[Facts], R]) -> R:
        return await _in_thread(lambda: ask(self._store().facts))


async def _in_thread(work: Callable[[], R]) -> R:
    return await trio.to_thread.run_sync(work)
