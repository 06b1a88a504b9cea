"""Prospects: what a sign-in at an upstream would begin with, found out ahead, and whether a host may begin it.

A host is told where to sign in only if it would work, and only in the usual case. What is unusual is for a person at a
terminal: another authorization server than before, or one that is known from an upstream elsewhere, which may take
tokens of one for those of the other.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio
from msgspec import Struct, structs

from config.settings import UpstreamConfig
from hub.link.recent import Recent
from hub.sign_in import texts
from hub.sign_in.surroundings import Surroundings
from hub.sign_in.tickets import IDENTITY_PROVIDER, Target, target_of
from upstreams.oauth.discovery.scopes import permitted
from upstreams.oauth.model import Challenge, Discovery, Grant, OAuthProblem, OAuthUnavailable

FRESH_S: Final = 60.0
"""Time for which what was found out ahead is used."""
MAX_PROSPECTS: Final = 256


class Prospect(Struct, frozen=True):
    """What is known of a sign-in that has not begun."""

    at: float
    target: Target
    discovery: Discovery | None = None
    """None: there is none to begin with."""
    problem: str = ""
    """Why not, for a person."""
    unusual: str = ""
    """Why only a person at a terminal may begin it; "": anybody may."""


class Prospects:
    """Those of all upstreams and principals. Servers are asked once at a time for each."""

    def __init__(self, around: Surroundings, now: Callable[[], float]) -> None:
        self._around = around
        self._now = now
        self._known: Recent[tuple[str, str], Prospect] = Recent(MAX_PROSPECTS)
        self._turns: Recent[tuple[str, str], trio.Lock] = Recent(MAX_PROSPECTS)

    def known(self, upstream: str, principal: str) -> Prospect | None:
        """What was found out within the last minute, for the settings of now."""
        found, config = self._known.get((upstream, principal)), self._around.upstream(upstream)
        if found is None or config is None or found.target != target_of(config):
            return None
        return None if found.at + FRESH_S <= self._now() else found

    def forget(self, upstream: str, principal: str) -> None:
        """Have it found out again."""
        self._known.pop((upstream, principal), None)

    async def look(self, upstream: str, config: UpstreamConfig, principal: str) -> Prospect:
        """Find out what a sign-in would begin with, unless that is known."""
        with suppress(OAuthProblem, OAuthUnavailable):
            await self.discover(upstream, config, principal)
        return self.known(upstream, principal) or Prospect(self._now(), target_of(config))

    async def discover(self, upstream: str, config: UpstreamConfig, principal: str, *, anew: bool = False) -> Discovery:
        """Find out what a sign-in begins with.

        Raises:
            OAuthProblem, OAuthUnavailable: as `Servers`.
        """
        key = upstream, principal
        turn = self._turns.get(key)
        if turn is None:
            turn = trio.Lock()
            self._turns.put(key, turn)
        async with turn:
            known = self.known(upstream, principal)
            if known is not None and known.discovery is not None and not anew:
                return known.discovery
            around = self._around
            credential = around.credential(upstream, config, principal)
            wants = Challenge() if credential is None else credential.challenge
            try:
                grant = await around.keeper().find(upstream, principal)
                preferred = () if grant is None else (grant.key.issuer,)
                found = await around.servers.discover(upstream, config, wants, preferred)
                unusual = await self._unusual(upstream, config, principal, found.server.issuer, grant)
            except (OAuthProblem, OAuthUnavailable) as error:
                self._known.put(key, Prospect(self._now(), target_of(config), problem=str(error)))
                raise
            if grant is not None and wants.error == "insufficient_scope" and not config.oauth.scopes:
                before = "" if credential is None else credential.wanted_scope
                scope = joined(before or joined(grant.scope, grant.asked_scope), found.scope)
                found = structs.replace(found, scope=" ".join(permitted(scope.split(), config.oauth.max_scopes)))
            self._known.put(key, Prospect(self._now(), target_of(config), found, unusual=unusual))
            return found

    async def _unusual(
        self, upstream: str, config: UpstreamConfig, principal: str, issuer: str, grant: Grant | None
    ) -> str:
        keeper = self._around.keeper()
        if is_same(config.oauth.issuer, issuer) or await keeper.is_agreed(upstream, principal, issuer):
            return ""
        if grant is not None and not is_same(grant.key.issuer, issuer):
            return texts.another_server(upstream, issuer, grant.key.issuer)
        for key in await keeper.keys():
            if is_same(key.issuer, issuer) and key.upstream != upstream and self._is_elsewhere(key.upstream, config):
                return texts.used_by_another(upstream, issuer, key.upstream or IDENTITY_PROVIDER)
        return ""

    def _is_elsewhere(self, other: str, config: UpstreamConfig) -> bool:
        found = self._around.upstream(other)
        return found is None or origin(found.url or "") != origin(config.url or "")

    def unusual(self, upstream: str, principal: str) -> str:
        """Why only a person at a terminal may begin this sign-in, as was found out last; "": anybody may."""
        known = self._known.get((upstream, principal))
        return "" if known is None else known.unusual

    def why_not(self, upstream: str, principal: str) -> str | None:
        """Why hosts are given no address; "": they are; None: that is not known."""
        known = self.known(upstream, principal)
        return None if known is None else known.problem or known.unusual


def joined(*scopes: str) -> str:
    """All scopes, each once."""
    return " ".join(dict.fromkeys(scope for text in scopes for scope in text.split(" ") if scope))


def is_same(one: str, other: str) -> bool:
    """True if two issuers are one: the same text, or a root with and without its slash."""
    return one == other or (
        bool(one and other) and one.rstrip("/") == other.rstrip("/") and one.count("/") + other.count("/") == 5
    )


def origin(url: str) -> str:
    """Scheme, host and port, as they are written but for their case."""
    return "/".join(url.split("/")[:3]).lower()
