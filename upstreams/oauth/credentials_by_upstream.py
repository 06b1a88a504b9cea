"""Accounts: all credentials of one hub, by upstream and principal. Nothing here is loaded by a hub that has no upstream
with a URL, and little by one whose upstreams want no sign-in."""

import logging
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakValueDictionary

import trio

from config.security_settings import OAuthConfig
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from hub.link.fault_isolation import run_isolated
from upstreams.oauth.credential import UpstreamCredential
from upstreams.oauth.credential_machine import Shared
from upstreams.oauth.model import AccountRow, Grant, OAuthAccount, OAuthProblem, OAuthUnavailable, settings_of

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher
    from upstreams.oauth.store.grant_store import GrantStore

log = logging.getLogger(__name__)

R = TypeVar("R")
MAX_IDLE: Final = 256
"""Credentials without a grant that are remembered, for what their upstreams said last."""


@dataclass(eq=False, repr=False)
class Accounts:
    """All credentials of one hub. `run` has to run beside those who use them.

    `folder` is where `store` keeps grants: while there is none, nothing is loaded. `wall` is the time of day, `clock`
    counts while the machine sleeps. `on_change(upstream, principal)` is called after each change of a credential.
    `configured` names the upstreams there are; None: nobody knows.
    """

    config: Callable[[], OAuthConfig]
    make_store: "Callable[[], GrantStore]"
    fetch: "Fetcher"
    _: KW_ONLY
    folder: Path
    wall: Callable[[], float]
    clock: Callable[[], float]
    on_change: Callable[[str, str], None] = lambda upstream, principal: None
    configured: Callable[[], Collection[str] | None] = lambda: None

    def __post_init__(self) -> None:
        self._credentials: dict[tuple[str, str], UpstreamCredential] = {}
        self._in_use: WeakValueDictionary[tuple[str, str], UpstreamCredential] = WeakValueDictionary()
        """All that anybody still has, so that there are never two for the same."""
        self._nursery: trio.Nursery | None = None
        self._waiting: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._made: GrantStore | None = None
        self._shared = Shared(
            store=self.store,
            fetch=self.fetch,
            wall=self.wall,
            clock=self.clock,
            spawn=self.spawn,
            idp=lambda: self.config().idp,
            idp_grant=lambda principal: self.idp(principal).current(),
        )

    async def run(self) -> None:
        """Carry out renewals, which nobody who waits for one owns, until cancelled. Cancellation: a request that is
        sent is waited for, since its answer may be all there is."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                for what, task in self._waiting:
                    nursery.start_soon(run_isolated, what, task)
                self._waiting.clear()
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def store(self) -> "GrantStore":
        """The store of what is kept. The first call may block briefly."""
        if self._made is None:
            self._made = self.make_store()
        return self._made

    async def ask(self, question: "Callable[[GrantStore], R]") -> R:
        """The answer of the store to a question, which blocks. Raises as `GrantStore`."""
        return await trio.to_thread.run_sync(lambda: question(self.store()))

    def credential(self, name: str, config: UpstreamConfig, principal: str) -> UpstreamCredential | None:
        """The credential that sessions of `principal` show the upstream; None: the configured headers are all there
        is."""
        if config.url is None or not config.signs_in:
            return None
        return self._credential_of(OAuthAccount(name, config.url, principal, config.oauth))

    def find(self, name: str, principal: str) -> UpstreamCredential | None:
        """The credential of a principal at an upstream, if a session has asked for it."""
        return self._credentials.get((name, principal)) or self._in_use.get((name, principal))

    def idp(self, principal: str) -> UpstreamCredential:
        """The credential of the company's identity provider, which is kept as that of the upstream ""."""
        settings = settings_of(self._shared.idp())
        return self._credential_of(OAuthAccount("", settings.issuer, principal, settings))

    async def keep(self, grant: Grant) -> Grant:
        """Keep the grant of a new sign-in, durably, and use it from now on. What is kept: its generation may differ.
        Raises OAuthProblem: it cannot be kept; OAuthUnavailable: another process keeps the grant locked, or the key
        cannot be had now."""
        store = await trio.to_thread.run_sync(self.store)
        kept = await store.keep(grant)
        if (known := self.find(grant.key.upstream, grant.key.principal)) is not None:
            known.signed_in(kept)
        if not grant.key.upstream:
            for each in self._credentials.values():
                if each.account.settings.grant == "id_jag":
                    each.try_again()
        return kept

    async def start(self, configured: "list[str]") -> None:
        """To be called at each start: forget what was kept for upstreams that are long gone. If that cannot be done
        now, the log says so, and the next start tries it again."""
        if self._may_be_kept():
            try:
                await self.ask(lambda store: store.drop_removed({"", *configured}, self.wall()))
            except (OAuthProblem, OAuthUnavailable) as problem:
                log.warning("what is kept for removed upstreams is not looked through: %s", problem)

    async def first_of(self, upstream: str) -> str:
        """The principal with a sign-in that can be used: the owner, else whoever signed in first; the owner, if there
        is none."""
        if not self._may_be_kept():
            return OWNER
        try:
            kept = await self.ask(lambda store: store.grants())
        except (OAuthProblem, OAuthUnavailable) as problem:
            log.warning("who is signed in at %s cannot be looked up: %s", upstream, problem)
            return OWNER
        files = [each.file for each in kept if each.is_readable and each.file.upstream == upstream]
        found = [(file.signed_in_at, file.principal) for file in files if not file.sign_in_needed]
        return OWNER if not found or any(who == OWNER for _, who in found) else min(found)[1]

    def rows(self) -> list[AccountRow]:
        """All accounts, those that are kept and those that sessions have asked for. Blocks for the disk, not for the
        key."""
        rows = self.store().rows(self.wall()) if self._may_be_kept() else {}
        for key, credential in list(self._credentials.items()):
            if credential.state != "none":
                rows[key] = credential.row(rows[key].key_source if key in rows else "")
        return [rows[key] for key in sorted(rows)]

    def _credential_of(self, account: OAuthAccount) -> UpstreamCredential:
        """The credential that there is, if it is for the same settings; else a new one."""
        key = account.upstream, account.principal
        if (known := self.find(*key)) is not None and known.account == account:
            return known
        made = UpstreamCredential(account, self._shared, self.on_change, may_be_kept=self._may_be_kept())
        self._credentials[key] = self._in_use[key] = made
        self._drop_idle(made)
        return made

    def _drop_idle(self, newest: UpstreamCredential) -> None:
        """Forget those of upstreams that are gone, and the oldest that hold nothing if there are too many of them. What
        a session has stays known for as long."""
        configured, idle = self.configured(), []
        for key, each in list(self._credentials.items()):
            if each is newest:
                continue
            if configured is not None and key[0] and key[0] not in configured:
                del self._credentials[key]
            elif each.is_idle:
                idle.append(key)
        for key in idle[:-MAX_IDLE]:
            del self._credentials[key]

    def _may_be_kept(self) -> bool:
        return self._made is not None or os.path.isdir(self.folder)

    def spawn(self, what: str, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task that nobody waits for beside `run`, from its beginning on if it is not running yet."""
        if self._nursery is None:
            self._waiting.append((what, task))
        else:
            self._nursery.start_soon(run_isolated, what, task)
