"""Requests of the command line about sign-ins, carried out by the parts of sign-ins.

What is unusual about a sign-in is for a person to agree to, and more scopes are for a person to name, so both are
refused to programs of hosts and servers.
A sign-in that one of those begins is ended by nobody but the person's own browser.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Final

import trio
from msgspec import convert, structs

from cache.cache_entry import DropCause
from hub.app import WALL
from hub.control import sign_in_messages as messages
from hub.control.answers import SignInFacts
from hub.daemon.assemble_sign_ins import SignInParts
from hub.daemon.decision_requests import why_no_person
from hub.link.call_interface import OWNER
from hub.link.hub_errors import HubError, UpstreamUnauthorized, UpstreamUnavailable
from hub.linux.processes import Process
from upstreams.lifecycle import State

if TYPE_CHECKING:
    from upstreams.oauth.credential import UpstreamCredential

log = logging.getLogger("hubd")

MAX_TRIALS: Final = 16
COMMANDS: Final = {"authorization_code": "hubd auth {}", "id_jag": "hubd auth --idp"}
"""The command that a person runs where the hub signs in in this way."""

LISTED: Final = (
    "Its lists are read as you, the owner, though everybody signs in there; with across_principals = true they are"
    " read as whoever signed in first."
)


class SignInRequests:
    """Carries them out, by their names in `hub.control.methods`. `shims`: the processes by which hosts are attached."""

    def __init__(self, parts: SignInParts, shims: Callable[[], Iterable[Process]]) -> None:
        self._parts = parts
        self._shims = shims

    async def sign_in(
        self, *, name: str = "", idp: bool = False, scope: str = "", reset: bool = False, yes: bool = False
    ) -> AsyncGenerator[messages.SignInStep, None]:
        """Begin a sign-in at an upstream, or at the company's identity provider; then tell its outcome.
        Raises: HubError, if it cannot begin."""
        if idp == bool(name):
            raise UpstreamUnavailable("Name the server to sign in at, or the company's identity provider, one of them")
        await self._parts.ready()
        by_program = await self._is_of_a_host()
        if by_program and (yes or scope):
            raise _only_a_person(f"hubd auth {name or '--idp'} {'--yes' if yes else '--scope'}")
        begun = await self._parts.sign_ins.begin(name, scope=scope, reset=reset, yes=yes, by_program=by_program)
        yield convert(begun, messages.SignInStep, from_attributes=True)
        if not (begun.unusual or begun.wants_token):
            yield messages.SignInStep(issuer=begun.issuer, outcome=await self._parts.sign_ins.wait(begun))

    def facts(self, name: str) -> SignInFacts | None:
        """The sign-in of the hub at an upstream, as far as it is known without asking anybody; None: it does not
        sign in there. Cheap."""
        credential = self._parts.find(name, OWNER)
        if credential is None or credential.state == "none":
            return None
        grant = credential.grant
        expires_at = None if grant is None else grant.expires_at
        return SignInFacts(
            state=credential.state,
            issuer="" if grant is None else grant.key.issuer,
            expires_s=None if expires_at is None else round(expires_at - WALL(), 1),
            renewable=credential.is_renewable,
            note=f"{credential.problem} {LISTED}" if self._hides_lists(credential) else credential.problem,
            command=COMMANDS.get(credential.account.settings.grant, "").format(name),
        )

    def _hides_lists(self, credential: "UpstreamCredential") -> bool:
        """True if nobody sees what an upstream offers before the owner has signed in, whoever else has."""
        config = self._parts.config_of(credential.account.upstream)
        is_each = config is not None and config.is_each and not config.across_principals
        return is_each and not credential.is_usable

    async def sign_in_finish(self, address: str) -> messages.SignInOutcome:
        """Carry on with an address that a person has copied. Raises: HubError, if it belongs to no sign-in."""
        await self._parts.ready()
        if await self._is_of_a_host():
            raise _only_a_person("hubd auth --finish")
        return await self._parts.sign_ins.finish(address)

    async def sign_in_trials(self) -> messages.SignInTrials:
        """The prospects of the sign-ins that upstreams wait for, of some of them at least."""
        await self._parts.ready()
        waiting = [
            name
            for name, upstream in self._parts.hub.supervisor.upstreams.items()
            if upstream.state is State.UNAUTHORIZED and upstream.config.signs_in_by_person
        ]
        found: dict[str, messages.SignInTrial] = {}

        async def look(name: str) -> None:
            try:
                found[name] = await self._parts.sign_ins.trial(name)
            except HubError as error:
                found[name] = messages.SignInTrial(name, str(error))

        async with trio.open_nursery() as nursery:
            for name in waiting[:MAX_TRIALS]:
                nursery.start_soon(look, name)
        return messages.SignInTrials(tuple(found[name] for name in sorted(found)))

    async def sign_in_status(self, name: str | None = None) -> messages.SignInAccounts:
        """The accounts at an upstream, or all."""
        parts = self._parts
        await parts.ready()
        now = WALL()
        try:
            rows = await trio.to_thread.run_sync(parts.accounts.rows)
        except _problems() as error:
            raise UpstreamUnavailable(str(error)) from None
        found = []
        for row in rows:
            if name is None or row.upstream in (name, parts.name_of(name)):
                upstream, members = parts.hub.supervisor.upstreams.find(row.upstream), structs.asdict(row)
                ends, account = members.pop("expires_at"), "each" if upstream and upstream.config.is_each else "shared"
                expires_s = None if ends is None else round(ends - now, 1)
                found.append(messages.SignInAccount(**members, account=account, expires_s=expires_s))
        return messages.SignInAccounts(tuple(found))

    async def sign_out(self, name: str | None = None, forget: bool = False) -> messages.SignedOut:
        """Sign out of an upstream, or of all.
        Raises: HubError, if there is no such upstream, or what is kept cannot be deleted."""
        parts = self._parts
        upstreams = parts.hub.supervisor.upstreams
        if name is not None and upstreams.find(name) is None:
            raise UpstreamUnavailable(f"There is no server {name}; `hubd status` lists them")
        known = (await self.sign_in_status(name)).accounts
        wanted = {(each.upstream, each.principal) for each in known} or (
            {(parts.name_of(name), OWNER)} if name else set()
        )
        done = []
        for upstream, principal in sorted(wanted):
            if (credential := await self._credential(upstream, principal)) is None:
                continue
            try:
                out = await credential.logout(forget)
            except _problems() as error:
                raise UpstreamUnauthorized(str(error), upstream=upstream) from None
            parts.hub.audit.note("access", what="signed out", up=upstream, p=principal)
            if upstream and (running := upstreams.find(upstream)) is not None:
                parts.hub.supervisor.signed_out(running.name)
                parts.hub.reads.invalidate(running.name, DropCause.CLEARED)
            done.append(messages.SignedOutAccount(upstream=upstream, principal=principal, **structs.asdict(out)))
        return messages.SignedOut(tuple(done))

    async def _credential(self, upstream: str, principal: str) -> "UpstreamCredential | None":
        """The credential of a principal at an upstream; "": at the company's identity provider."""
        if (config := self._parts.config_of(upstream)) is None:
            return None
        if not upstream:
            return self._parts.accounts.idp(principal)
        return await self._parts.credential(upstream, config, principal)

    async def _is_of_a_host(self) -> bool:
        """True if a program of a host or a server asks, or one of which nothing is known."""
        if why := await why_no_person(self._shims()):
            log.info("a sign-in is asked for by a program: %s", why)
        return bool(why)


def _only_a_person(command: str) -> UpstreamUnauthorized:
    text = f'"{command}" was run by a program of a host or a server, and only a person may do that'
    return UpstreamUnauthorized(f"{text}. Run it in a terminal.")


def _problems() -> tuple[type[Exception], ...]:
    """The reasons why there is no sign-in; `ready` has loaded what raises them."""
    from upstreams.oauth.model import OAuthProblem, OAuthUnavailable

    return OAuthProblem, OAuthUnavailable
