"""Session pool: which session serves which host.

Every upstream has a main session, which the runner keeps: lists are read and changes heard over it. Whether hosts share
it is decided when it opens:

    SHARED       the hosts of one account share it; other accounts have one for all their hosts
    SINGLETON    as SHARED, but there is no other: other accounts are refused
    PER_HOST     nobody uses it; each host has a session for itself, opened by its first operation
    INTERACTIVE  as PER_HOST, from the first question that the upstream asked on; the host that used the main session
                 last goes on with it, alone, unless a call of another host still runs in it, or until the upstream
                 asks for its roots, which that session cannot have

A session that served one account never serves another, unless the configuration allows it; a session of one tenant
serves nobody else, and is closed when the tenant has left or was idle for long. Nothing here waits:
`session_opener` does.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import trio
from msgspec import Raw

from config.diff import config_key
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import OWNER, Caller, Tenant
from hub.link.hub_errors import Overloaded, UpstreamUnavailable
from hub.wire.capabilities import detach_all
from hub.wire.mcp import LIST_ROOTS, Era
from upstreams.sessions.pooled_session import PooledSession
from upstreams.sessions.sharing import EXCLUSIVE, ONE_STREAM, Sharing, is_welcoming, sharing_of, terms_of, union

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 32
MAX_WEB_SESSIONS: Final = 1024
"""Sessions of one upstream beside the main one: processes, and sessions over HTTP, which cost little."""
MAX_GONE: Final = 64
"""Hosts that have left are remembered until all their calls must have noticed."""
INTERACTIVE: Final = "interactive"
"""The section of the memory that lists upstreams that have asked questions."""
UNSHARED: Final = None, *EXCLUSIVE
"""Ways of sharing in which hosts share no session."""


class Pool:
    """The sessions of one upstream. `on_moved` is called whenever a host may have another session than before."""

    def __init__(self, name: str, config: UpstreamConfig, memory: Memory, on_moved: Callable[[], None]) -> None:
        self.name = name
        self.config = config
        self.retired = False
        """No call may have a session here any more."""
        self.main: PooledSession | None = None
        self.sharing: Sharing | None = None
        """None: not known yet."""
        self.extra_sessions: dict[PooledSession, None] = {}
        """All sessions but the main one, those that are being opened or closed included."""
        self._memory = memory
        self.on_moved = on_moved
        self._everybody = False
        """Accounts do not matter: every host may use every shared session."""
        self._by_host: dict[Tenant, PooledSession] = {}
        """Sessions that one host has for itself."""
        self._by_account: dict[str, PooledSession] = {}
        """Sessions that the hosts of an account share, beside the main one."""
        self.opening: dict[Tenant | str, PooledSession] = {}
        """Sessions that are being opened, by their owner; no call finds them yet."""
        self._asks_roots = False
        """The upstream has asked for roots."""
        self._departed: BoundedDict[Tenant, None] = BoundedDict(MAX_GONE)
        self._level: str | None = None

    def __len__(self) -> int:
        return len(self.open_sessions())

    def open_sessions(self) -> list[PooledSession]:
        """All open sessions, the main one first."""
        every = [*([self.main] if self.main else []), *self.extra_sessions]
        return [pooled for pooled in every if pooled.is_open and not pooled.over and not pooled.scope.cancel_called]

    # --- the main session ---------------------------------------------------------------------------------------------

    def main_opened(self, main: PooledSession) -> None:
        """Take in a new main session, which no host has used."""
        era, transport = main.session.era, main.session.transport
        self.main = main
        main.want_level(self._level)
        self.decide_sharing(era, transport)
        self._everybody = self.config.across_principals or (era is Era.MODERN and transport not in ONE_STREAM)
        if main.account is not None and not self.shares_account:
            self._everybody, main.principal = False, main.account
        self.on_moved()

    @property
    def shares_account(self) -> bool:
        """True if all principals act by the sign-in of the hub's owner."""
        return self.config.across_principals and not self.config.is_each

    def has_own_account(self, caller: Caller) -> bool:
        """True if the account of `caller` at the server is not that of the main session."""
        return self.config.is_each and caller.identity.principal != OWNER

    def decide_sharing(self, era: Era, transport: str) -> None:
        """Decide which hosts share sessions of `era` over `transport`."""
        has_asked = self._memory.get(INTERACTIVE, config_key(self.config)) is True
        self.sharing = sharing_of(self.config, era, transport, has_asked)

    def main_lost(self) -> None:
        main, self.main = self.main, None
        if main is not None:
            self.session_ended(main)

    def retire(self) -> None:
        """Let no call find a session any more; each is closed when its calls are over. Sessions that are being opened
        are given up."""
        self.retired = True
        for pooled in list(self.extra_sessions):
            self.let_go(pooled)
            if not pooled.is_open:
                pooled.scope.cancel()
        if self.main is not None:
            self.extra_sessions[self.main] = None  # tasks that live in it find it there
        self.main_lost()

    # --- whose session is it? -----------------------------------------------------------------------------------------

    def find(self, caller: Caller, *, claims: bool = True) -> PooledSession | None:
        """The open session that serves `caller`; None: there is none yet, or it declares too little.

        `claims`: the account of `caller` owns the session from now on, if none did. Else `caller` only looks: nothing
        is claimed, and nothing refused.

        Raises:
            UpstreamUnavailable: there never will be one, as the upstream is configured.
        """
        if self._by_host and (pooled := self._by_host.get(caller.tenant)):
            if pooled.terms.exclusive:
                return pooled if pooled.covers(caller, self.config) else None
            lacks_roots = self._asks_roots and self.config.roots == "auto" and "roots" in caller.capabilities
            return None if lacks_roots else pooled  # hosts shared it, so it declares none
        return None if self.sharing in UNSHARED else self._account_session(caller.identity.principal, claims=claims)

    def for_subscriptions(self, caller: Caller) -> PooledSession | None:
        """The open session for subscriptions of `caller`, whatever it declares: they ask hosts nothing."""
        own = self._by_host.get(caller.tenant)
        return own if own or self.sharing in UNSHARED else self._account_session(caller.identity.principal)

    def lend_main(self, caller: Caller) -> PooledSession | None:
        """The main session, if nobody owns it, lent to the subscriptions of a host that `needs_call_first`."""
        if self.main is None or self.main in self._by_host.values() or not self.needs_call_first(caller):
            return None
        return self._account_session(caller.identity.principal)

    def needs_call_first(self, caller: Caller) -> bool:
        """True if only a call can open the session of `caller`'s host: the host tells its roots in no other way."""
        if caller.era is Era.LEGACY or self.sharing not in EXCLUSIVE:
            return False
        return is_welcoming(terms_of(self.config, caller.capabilities))

    def _account_session(self, principal: str, *, claims: bool = True) -> PooledSession | None:
        pooled = self._by_account.get(principal) or self.main
        if pooled is None or self._everybody or pooled.principal == principal:
            return pooled
        if pooled.serves(principal, claims=claims):
            return pooled
        if claims and self.sharing is Sharing.SINGLETON:
            text = f'{self.name} may run only once (session_mode = "singleton") and is in use by another account.'
            text += " Set across_principals = true in its configuration if accounts may share it, or"
            raise UpstreamUnavailable(f'{text} session_mode = "shared" for one session each.', upstream=self.name)
        return None

    # --- opened, and over ---------------------------------------------------------------------------------------------

    def owner(self, caller: Caller) -> Tenant | str:
        """The owner of a session that is opened for `caller`: its host, or its account.

        Raises:
            UpstreamUnavailable: that host has left.
        """
        if caller.tenant in self._departed:
            raise UpstreamUnavailable(f"The host of this call has left; {self.name} was not asked")
        return caller.tenant if self.sharing in EXCLUSIVE else caller.identity.principal

    def host_capabilities(self, tenant: Tenant, caller: Caller) -> dict[str, Raw]:
        """Capabilities of a host: what `caller` declares, and what it declared when a session was opened for it."""
        smaller = self._by_host.get(tenant)
        return union(smaller.host_capabilities if smaller else {}, detach_all(caller.capabilities))

    def make_room(self) -> None:
        """Close the session that was idle longest, if there are too many.

        Raises:
            Overloaded: all are in use.
        """
        staying = [pooled for pooled in self.extra_sessions if not pooled.scope.cancel_called]
        most = MAX_SESSIONS if self.config.url is None else MAX_WEB_SESSIONS
        if len(staying) < most:
            return
        now = trio.current_time()
        idle = [each for each in staying if not each.users and not each.subscriptions.held and each.needed_until <= now]
        if not idle:
            text = f"{self.name} has {most} sessions, one for each host, and all are in use; try again later"
            raise Overloaded(text, upstream=self.name)
        self.let_go(min(idle, key=lambda pooled: pooled.idle_since))

    def session_opened(self, pooled: PooledSession) -> None:
        """The session is open; no call finds it until it is `session_ready`."""
        pooled.want_level(self._level)
        if self.sharing is None:  # it needs no main session, and its server's era was not known
            self.decide_sharing(pooled.session.era, pooled.session.transport)

    def session_ready(self, pooled: PooledSession) -> None:
        """Let calls find the session."""
        keys = [key for key, found in self.opening.items() if found is pooled]
        for key in keys:  # one, or none if it is over or its tenant is gone
            del self.opening[key]
            if isinstance(key, str):
                self._by_account[key] = pooled
                if self.sharing in EXCLUSIVE:
                    self.let_go(pooled)
                continue
            smaller = self._by_host.get(key)
            self._by_host[key] = pooled
            if smaller is not None and smaller is not self.main:
                self.let_go(smaller)
            elif smaller is not None:
                smaller.give_to(None)
        self.on_moved()

    def let_go(self, pooled: PooledSession, *, is_idle: bool = False) -> None:
        """Let no more calls use the session; it is closed when its calls are over. `is_idle`: nobody has needed it for
        long."""
        self._forget(pooled)
        pooled.retire(is_idle=is_idle)

    def session_ended(self, pooled: PooledSession) -> None:
        self._forget(pooled)
        self.on_moved()

    def _forget(self, pooled: PooledSession) -> None:
        pooled.missed()
        tables: tuple[dict[Any, PooledSession], ...] = (self._by_host, self._by_account, self.opening)
        for table in tables:
            for key in [key for key, found in table.items() if found is pooled]:
                del table[key]

    # --- what hosts and upstreams do ----------------------------------------------------------------------------------

    def host_left(self, tenant: Tenant) -> None:
        """A host has left: its own session is closed once its calls are over."""
        for pooled in (self._by_host.pop(tenant, None), self.opening.get(tenant)):
            if pooled is not None and pooled.terms.exclusive:
                self.let_go(pooled)
        for pooled in self.open_sessions():
            pooled.tenant_left(tenant)
        if tenant.conversation:
            self._departed.put(tenant, None)
        self.on_moved()

    def roots_changed(self, tenant: Tenant) -> None:
        """Tell the upstream, over the host's own session, that the roots of a host have changed."""
        for pooled in self.open_sessions():
            if pooled.terms.exclusive and pooled.tenant == tenant and pooled.terms.roots is None:
                pooled.session.roots_changed()

    def want_level(self, level: str | None) -> None:
        """The least severe level any host wants to hear, None for none: every session is told the same."""
        self._level = level
        for pooled in self.open_sessions():
            pooled.want_level(level)

    def asked(self, method: str) -> None:
        """The upstream asked a question: give every host its own session, if the configuration leaves that open."""
        self._asks_roots = self._asks_roots or method == LIST_ROOTS
        if self.sharing is not Sharing.SHARED or self.config.session_mode != "auto":
            return
        self.sharing = Sharing.INTERACTIVE
        self._memory.put(INTERACTIVE, config_key(self.config), True)
        log.info("%s asks its hosts questions: from now on each host has a session of its own", self.name)
        for pooled in [*([self.main] if self.main else []), *self._by_account.values()]:
            last_tenant = pooled.last_tenant
            # One whose requests stand alone never leaves, and would have it for good.
            plain = not (pooled.hosts_overlap or pooled.many_accounts)
            if last_tenant is not None and last_tenant.conversation and last_tenant not in self._departed and plain:
                self._by_host[last_tenant] = pooled
                pooled.give_to(last_tenant)
            elif pooled is self.main:
                pooled.missed()
            else:
                self.let_go(pooled)
        self._by_account.clear()
        self.on_moved()

    def forget_interactive(self) -> None:
        """Take back what `asked` did: hosts without a session share the main one again."""
        self._memory.put(INTERACTIVE, config_key(self.config), None)
        if self.sharing is Sharing.INTERACTIVE:
            self.sharing = Sharing.SHARED
            for pooled in self.open_sessions():
                if not pooled.terms.exclusive:
                    pooled.give_to(None)
            self.on_moved()
