"""Preflight of sign-ins: what one at an upstream would begin with, asked ahead, and whether a host may begin it.

A host is told where to sign in only if it would work, and only in the usual case. What is unusual is for a person at a
terminal: another authorization server than before, or one that is known from an upstream elsewhere, which may take
tokens of one for those of the other.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio
from msgspec import Struct, structs

from hub.link.bounded_dict import BoundedDict
from hub.sign_in.ask_authorization_server import Surroundings
from upstreams.oauth import model
from upstreams.oauth.discovery.challenge import permit_scopes, readable_scopes
from upstreams.oauth.model import IDENTITY_PROVIDER
from upstreams.oauth.store.grant_store import CannotOpen
from upstreams.oauth.token_answers import origin_of

FRESH_S: Final = 60.0
"""Time for which what was found out ahead is used."""
MAX_WAIT_S: Final = 600.0
"""The longest that a server's word is taken for when to ask it again."""
AGAIN_S: Final = 5.0
"""The pause after a failure of which no server said how long it lasts."""
MAX_KNOWN: Final = 256


class SignInPreflight(Struct, frozen=True):
    """What is known of a sign-in that has not begun."""

    at: float
    account: model.OAuthAccount
    discovery: model.Discovery | None = None
    """None: there is none to begin with."""
    failure: model.OAuthProblem | model.OAuthUnavailable | None = None
    """The reason why not."""
    unusual: str = ""
    """The reason why only a person at a terminal may begin it; "": anybody may."""

    @property
    def retry_after_s(self) -> float:
        """The time after which a server said to ask it again, within bounds; 0: nothing."""
        after = self.failure.retry_after_s if isinstance(self.failure, model.OAuthUnavailable) else None
        return min(max(after or 0.0, 0.0), MAX_WAIT_S)

    @property
    def pause_s(self) -> float:
        """Time after a failure before which reloading a page has nobody asked again."""
        return self.retry_after_s or AGAIN_S


class SignInPreflights:
    """The preflights of sign-ins at all upstreams, by principal. Servers are asked once at a time for each."""

    def __init__(self, around: Surroundings, now: Callable[[], float]) -> None:
        self._around = around
        self._now = now
        self._known: BoundedDict[tuple[str, str], SignInPreflight] = BoundedDict(MAX_KNOWN)
        self._turns: BoundedDict[tuple[str, str], trio.Lock] = BoundedDict(MAX_KNOWN)

    def find(self, account: model.OAuthAccount) -> SignInPreflight | None:
        """What was found within the last minute, for the settings of now; a failure, for longer if a server said so."""
        if (found := self._known.get(_key(account))) is None or found.account != account:
            return None
        return None if found.at + max(FRESH_S, found.retry_after_s) <= self._now() else found

    def forget(self, upstream: str, principal: str) -> None:
        """Have it found out again."""
        self._known.pop((upstream, principal), None)

    def note_slow(self, account: model.OAuthAccount) -> None:
        """Nothing was found out in the time that there was; hosts wait for it no more until a minute from now."""
        if self.find(account) is None:
            self._note(account, failure=model.OAuthUnavailable(too_slow(account.upstream or IDENTITY_PROVIDER)))

    async def look(self, account: model.OAuthAccount) -> SignInPreflight:
        """Find out what a sign-in would begin with, unless that is known, be it that there is none."""
        async with self._turn(account):
            if self.find(account) is None:
                with suppress(model.OAuthProblem, model.OAuthUnavailable):
                    await self._ask(account)
        return self.find(account) or SignInPreflight(self._now(), account)

    async def discover(self, account: model.OAuthAccount, *, anew: bool = False) -> model.Discovery:
        """Find out what a sign-in begins with, which a person waits for. `anew`: whatever is known. Raises
        OAuthProblem, OAuthUnavailable: as `AuthorizationServers`."""
        async with self._turn(account):
            known = None if anew else self.find(account)
            if known is not None and known.discovery is not None:
                return known.discovery
            if known is not None and known.failure is not None and known.at + known.pause_s > self._now():
                raise _again(known.failure)
            return await self._ask(account)

    def _turn(self, account: model.OAuthAccount) -> trio.Lock:
        if (turn := self._turns.get(_key(account))) is None:
            turn = trio.Lock()
            self._turns.put(_key(account), turn)
        return turn

    async def _ask(self, account: model.OAuthAccount) -> model.Discovery:
        settings = account.settings
        credential = self._around.accounts.find(*_key(account))
        wants = model.Challenge() if credential is None else credential.challenge
        grant: model.Grant | None = None
        try:
            with suppress(CannotOpen):
                grant = await self._around.accounts.ask(lambda store: store.find(*_key(account)))
            preferred = () if grant is None else (grant.key.issuer,)
            found = await self._around.servers.discover(account, wants, preferred)
            unusual = await self._unusual(account, found.server.issuer, grant)
        except (model.OAuthProblem, model.OAuthUnavailable) as error:
            self._note(account, failure=_again(error))
            if isinstance(error, model.NoSignIn) and credential is not None:
                credential.note_problem(str(error))
            raise
        if grant is not None and wants.error == "insufficient_scope" and not settings.scopes:
            before = "" if credential is None else credential.wanted_scope
            scope = join_scopes(before or join_scopes(grant.scope, grant.asked_scope), found.scope)
            found = structs.replace(found, scope=" ".join(permit_scopes(scope.split(), settings.max_scopes)))
        self._note(account, discovery=found, unusual=unusual)
        return found

    def _note(self, account: model.OAuthAccount, **known: Any) -> None:
        self._known.put(_key(account), SignInPreflight(self._now(), account, **known))

    async def _unusual(self, account: model.OAuthAccount, issuer: str, grant: model.Grant | None) -> str:
        ask, upstream = self._around.accounts.ask, account.upstream
        expected = f'If you expect that, run "hubd auth {upstream}" in a terminal.'
        if model.same_issuer(account.settings.issuer, issuer):
            return ""
        if await ask(lambda store: store.facts.is_agreed(*_key(account), issuer)):
            return ""
        if grant is not None and not model.same_issuer(grant.key.issuer, issuer):
            text = f"{upstream} now names {issuer} as its authorization server; until now it was {grant.key.issuer}."
            return f"{text} {expected}"
        for key in await ask(lambda store: store.keys()):
            is_another = key.upstream != upstream and model.same_issuer(key.issuer, issuer)
            if is_another and self._is_elsewhere(key.upstream, account.url):
                text = f"{upstream} names {issuer} as its authorization server, where you are signed in for"
                text += f" {key.upstream or IDENTITY_PROVIDER}, which is somewhere else; a token for one may be good"
                return f"{text} for the other. {expected}"
        return ""

    def _is_elsewhere(self, other: str, url: str) -> bool:
        found = self._around.upstream(other)
        return found is None or origin_of(found.url or "") != origin_of(url)

    def unusual(self, account: model.OAuthAccount) -> str:
        """The reason why only a person at a terminal may begin this sign-in, as was found out last; "": anybody may."""
        return "" if (known := self._known.get(_key(account))) is None else known.unusual

    def why_not(self, account: model.OAuthAccount) -> str | None:
        """The reason why hosts are given no address; "": they are; None: that is not known."""
        known = self.find(account)
        return None if known is None else known.unusual if known.failure is None else str(known.failure)


def _key(account: model.OAuthAccount) -> tuple[str, str]:
    return account.upstream, account.principal


def too_slow(upstream: str) -> str:
    """The text if nothing was found out in the time that there was."""
    return f"What {upstream} names as its authorization server did not say in time how to sign in there"


def _again(failure: model.OAuthProblem | model.OAuthUnavailable) -> model.OAuthProblem | model.OAuthUnavailable:
    """The same failure for somebody else: one that is raised twice would hold what both were doing."""
    if isinstance(failure, model.OAuthProblem):
        return type(failure)(str(failure), code=failure.code)
    return model.OAuthUnavailable(str(failure), retry_after_s=failure.retry_after_s, sent=failure.sent)


def join_scopes(*scopes: str) -> str:
    """All scopes, each once."""
    return " ".join(dict.fromkeys(scope for text in scopes for scope in text.split(" ") if scope))


def check_scope(account: model.OAuthAccount, scope: str) -> None:
    """Check the scopes that a person has named. Raises OAuthProblem: they are none, or `max_scopes` does not permit all
    of them."""
    wanted = readable_scopes(scope)
    if scope.strip(" ") and not wanted:
        text = "What --scope names are no scopes: those are visible ASCII without quotes, joined by single spaces."
        raise model.OAuthProblem(text)
    if beyond := set(wanted).difference(permit_scopes(wanted, account.settings.max_scopes)):
        text = f"max_scopes of {account.upstream or IDENTITY_PROVIDER} does not permit {' '.join(sorted(beyond)[:8])}."
        raise model.OAuthProblem(f"{text} Change it in the configuration, or leave them out.")
