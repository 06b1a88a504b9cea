"""Outlook of sign-ins: what one at an upstream would begin with, found out ahead, and whether a host may begin it.

A host is told where to sign in only if it would work, and only in the usual case. What is unusual is for a person at a
terminal: another authorization server than before, or one that is known from an upstream elsewhere, which may take
tokens of one for those of the other.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio
from msgspec import Struct, structs

from config.settings import UpstreamConfig
from hub.link.bounded_dict import BoundedDict
from hub.sign_in.authorization_servers import Surroundings
from hub.sign_in.tickets import Target, target_of
from upstreams.oauth.discovery.challenge import permit_scopes, readable_scopes
from upstreams.oauth.model import (
    IDENTITY_PROVIDER,
    Challenge,
    Discovery,
    Grant,
    NoSignIn,
    OAuthProblem,
    OAuthUnavailable,
    same_issuer,
)
from upstreams.oauth.store.grant_store import CannotOpen
from upstreams.oauth.token_answers import origin_of

FRESH_S: Final = 60.0
"""Time for which what was found out ahead is used."""
MAX_WAIT_S: Final = 600.0
"""The longest that a server's word is taken for when to ask it again."""
AGAIN_S: Final = 5.0
"""The pause after a failure of which no server said how long it lasts."""
MAX_KNOWN: Final = 256


class SignInOutlook(Struct, frozen=True):
    """What is known of a sign-in that has not begun."""

    at: float
    target: Target
    discovery: Discovery | None = None
    """None: there is none to begin with."""
    failure: OAuthProblem | OAuthUnavailable | None = None
    """The reason why not."""
    unusual: str = ""
    """The reason why only a person at a terminal may begin it; "": anybody may."""

    @property
    def retry_after_s(self) -> float:
        """The time after which a server said to ask it again, within bounds; 0: nothing."""
        after = self.failure.retry_after_s if isinstance(self.failure, OAuthUnavailable) else None
        return min(max(after or 0.0, 0.0), MAX_WAIT_S)

    @property
    def pause_s(self) -> float:
        """Time after a failure before which reloading a page has nobody asked again."""
        return self.retry_after_s or AGAIN_S


class SignInOutlooks:
    """The outlooks of sign-ins at all upstreams, by principal. Servers are asked once at a time for each."""

    def __init__(self, around: Surroundings, now: Callable[[], float]) -> None:
        self._around = around
        self._now = now
        self._known: BoundedDict[tuple[str, str], SignInOutlook] = BoundedDict(MAX_KNOWN)
        self._turns: BoundedDict[tuple[str, str], trio.Lock] = BoundedDict(MAX_KNOWN)

    def find(self, upstream: str, principal: str) -> SignInOutlook | None:
        """What was found within the last minute, for the settings of now; a failure, for longer if a
        server said so."""
        found, config = self._known.get((upstream, principal)), self._around.upstream(upstream)
        if found is None or config is None or found.target != target_of(config):
            return None
        return None if found.at + max(FRESH_S, found.retry_after_s) <= self._now() else found

    def forget(self, upstream: str, principal: str) -> None:
        """Have it found out again."""
        self._known.pop((upstream, principal), None)

    def note_slow(self, upstream: str, config: UpstreamConfig, principal: str) -> None:
        """Nothing was found out in the time that there was; hosts wait for it no more until a minute from now."""
        if self.find(upstream, principal) is None:
            slow = OAuthUnavailable(too_slow(upstream or IDENTITY_PROVIDER))
            self._note(upstream, config, principal, failure=slow)

    async def look(self, upstream: str, config: UpstreamConfig, principal: str) -> SignInOutlook:
        """Find out what a sign-in would begin with, unless that is known, be it that there is none."""
        async with self._turn(upstream, principal):
            if self.find(upstream, principal) is None:
                with suppress(OAuthProblem, OAuthUnavailable):
                    await self._ask(upstream, config, principal)
        return self.find(upstream, principal) or SignInOutlook(self._now(), target_of(config))

    async def discover(self, upstream: str, config: UpstreamConfig, principal: str, *, anew: bool = False) -> Discovery:
        """Find out what a sign-in begins with, which a person waits for. `anew`: whatever is known. Raises
        OAuthProblem, OAuthUnavailable: as `AuthorizationServers`."""
        async with self._turn(upstream, principal):
            known = None if anew else self.find(upstream, principal)
            if known is not None and known.discovery is not None:
                return known.discovery
            if known is not None and known.failure is not None and known.at + known.pause_s > self._now():
                raise _again(known.failure)
            return await self._ask(upstream, config, principal)

    def _turn(self, upstream: str, principal: str) -> trio.Lock:
        if (turn := self._turns.get((upstream, principal))) is None:
            turn = trio.Lock()
            self._turns.put((upstream, principal), turn)
        return turn

    async def _ask(self, upstream: str, config: UpstreamConfig, principal: str) -> Discovery:
        credential = self._around.accounts.find(upstream, principal)
        wants = Challenge() if credential is None else credential.challenge
        grant: Grant | None = None
        try:
            with suppress(CannotOpen):
                grant = await self._around.accounts.ask(lambda store: store.find(upstream, principal))
            preferred = () if grant is None else (grant.key.issuer,)
            found = await self._around.servers.discover(upstream, config, wants, preferred)
            unusual = await self._unusual(upstream, config, principal, found.server.issuer, grant)
        except (OAuthProblem, OAuthUnavailable) as error:
            self._note(upstream, config, principal, failure=_again(error))
            if isinstance(error, NoSignIn) and credential is not None:
                credential.note_problem(str(error))
            raise
        if grant is not None and wants.error == "insufficient_scope" and not config.oauth.scopes:
            before = "" if credential is None else credential.wanted_scope
            scope = join_scopes(before or join_scopes(grant.scope, grant.asked_scope), found.scope)
            found = structs.replace(found, scope=" ".join(permit_scopes(scope.split(), config.oauth.max_scopes)))
        self._note(upstream, config, principal, discovery=found, unusual=unusual)
        return found

    def _note(self, upstream: str, config: UpstreamConfig, principal: str, **known: Any) -> None:
        self._known.put((upstream, principal), SignInOutlook(self._now(), target_of(config), **known))

    async def _unusual(
        self, upstream: str, config: UpstreamConfig, principal: str, issuer: str, grant: Grant | None
    ) -> str:
        ask = self._around.accounts.ask
        if same_issuer(config.oauth.issuer, issuer):
            return ""
        if await ask(lambda store: store.facts.is_agreed(upstream, principal, issuer)):
            return ""
        if grant is not None and not same_issuer(grant.key.issuer, issuer):
            return (
                f"{upstream} now names {issuer} as its authorization server; until now it was {grant.key.issuer}."
                f' If you expect that, run "hubd auth {upstream}" in a terminal.'
            )
        for key in await ask(lambda store: store.keys()):
            is_another = key.upstream != upstream and same_issuer(key.issuer, issuer)
            if is_another and self._is_elsewhere(key.upstream, config):
                return (
                    f"{upstream} names {issuer} as its authorization server, where you are signed in for"
                    f" {key.upstream or IDENTITY_PROVIDER}, which is somewhere else; a token for one may be good for"
                    f' the other. If you expect that, run "hubd auth {upstream}" in a terminal.'
                )
        return ""

    def _is_elsewhere(self, other: str, config: UpstreamConfig) -> bool:
        found = self._around.upstream(other)
        return found is None or origin_of(found.url or "") != origin_of(config.url or "")

    def unusual(self, upstream: str, principal: str) -> str:
        """The reason why only a person at a terminal may begin this sign-in, as was found out last; "": anybody may."""
        known = self._known.get((upstream, principal))
        return "" if known is None else known.unusual

    def why_not(self, upstream: str, principal: str) -> str | None:
        """The reason why hosts are given no address; "": they are; None: that is not known."""
        known = self.find(upstream, principal)
        return None if known is None else known.unusual if known.failure is None else str(known.failure)


def too_slow(upstream: str) -> str:
    """The text if nothing was found out in the time that there was."""
    return f"What {upstream} names as its authorization server did not say in time how to sign in there"


def _again(failure: OAuthProblem | OAuthUnavailable) -> OAuthProblem | OAuthUnavailable:
    """The same failure for somebody else: one that is raised twice would hold what both were doing."""
    if isinstance(failure, OAuthProblem):
        return type(failure)(str(failure), code=failure.code)
    return OAuthUnavailable(str(failure), retry_after_s=failure.retry_after_s, sent=failure.sent)


def join_scopes(*scopes: str) -> str:
    """All scopes, each once."""
    return " ".join(dict.fromkeys(scope for text in scopes for scope in text.split(" ") if scope))


def check_scope(upstream: str, config: UpstreamConfig, scope: str) -> None:
    """Check the scopes that a person has named. Raises OAuthProblem: they are none, or `max_scopes` does not permit all
    of them."""
    wanted = readable_scopes(scope)
    if scope.strip(" ") and not wanted:
        raise OAuthProblem(
            "What --scope names are no scopes: those are visible ASCII without quotes, joined by single spaces."
        )
    if beyond := set(wanted).difference(permit_scopes(wanted, config.oauth.max_scopes)):
        raise OAuthProblem(
            f"max_scopes of {upstream or IDENTITY_PROVIDER} does not permit {' '.join(sorted(beyond)[:8])}. Change it"
            " in the configuration, or leave them out."
        )
