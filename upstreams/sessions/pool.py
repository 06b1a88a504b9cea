"""Which session serves which host (bridging.md 5.2, 6, 16; D-13, D-17).

Every upstream has a main session, which the supervisor runs: it reads the lists and hears what changes. Whether hosts
share it is decided when it opens:

    SHARED       the hosts of one account share it; other accounts have one for all their hosts
    SINGLETON    as SHARED, but there is no other: other accounts are refused
    PER_HOST     nobody uses it; each host has a session for itself, opened by its first operation
    INTERACTIVE  as PER_HOST, from the first question that the upstream asked on; the host that used the main session
                 last goes on with it, alone, unless another's call is still with it (16.3)

What always holds: a session that served one account never serves another, unless the configuration says that it may;
one that belongs to a tenant serves nobody else, and is closed when the tenant is gone or was idle for long. Nothing
here waits: `connector` has the tasks.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import trio
from msgspec import Raw

from config.identity import config_key
from config.schema import UpstreamConfig
from hub.link.interface import Caller, HubError, Overloaded, Tenant, UpstreamUnavailable
from hub.wire.capabilities import covers
from hub.wire.handshake import detached
from hub.wire.mcp import Era
from upstreams.session import EraMemory
from upstreams.sessions.pooled_session import Place
from upstreams.sessions.sharing import EXCLUSIVE, Sharing, is_welcoming, sharing_of, terms_of, union

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 32
MAX_WEB_SESSIONS: Final = 1024
"""Of one upstream, beside the main one: processes, and sessions over HTTP, which cost little."""
MAX_GONE: Final = 64
"""Hosts that have left, which are remembered until all their calls must have noticed."""
INTERACTIVE: Final = "interactive"
"""The section of the memory that names upstreams that have asked."""


class Memory(EraMemory, Protocol):
    """What is remembered between runs; `config.saved_state.Memory` is one."""

    def get(self, section: str, key: str) -> object: ...

    def put(self, section: str, key: str, value: object) -> None: ...


def _nothing() -> None:
    pass


class Pool:
    """The sessions of one upstream. `main` is set and unset by the supervisor; `connector` has the others made."""

    def __init__(self, name: str, config: UpstreamConfig, memory: Memory) -> None:
        self.name = name
        self.config = config
        self.retired = False
        """No call may have a session here any more."""
        self.main: Place | None = None
        self.sharing: Sharing | None = None
        """None: nothing is known of it yet."""
        self.places: dict[Place, None] = {}
        """All but the main one, those that are being opened or closed included."""
        self.moved: Callable[[], None] = _nothing
        """Called whenever a host may have another session than before."""
        self._memory = memory
        self._everybody = False
        """Whether accounts do not matter."""
        self._served: dict[Tenant, Place] = {}
        """What one host has for itself."""
        self._shared: dict[str, Place] = {}
        """What the hosts of an account share, beside the main session."""
        self._opening: dict[Tenant | str, Place] = {}
        """Whose those will be that no call finds yet."""
        self._gone: dict[Tenant, None] = {}
        self._level: str | None = None

    def __repr__(self) -> str:
        mode = self.sharing.value if self.sharing else "unknown"
        return f"<Pool {self.name} {mode} [{len(self)} open, {len(self._opening)} opening]>"

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self.open_places())

    def open_places(self) -> list[Place]:
        """Those of all open sessions, the main one first."""
        every = [*([self.main] if self.main else []), *self.places]
        return [place for place in every if place.is_open and not place.over and not place.scope.cancel_called]

    # --- the main session ---------------------------------------------------------------------------------------------

    def main_opened(self, main: Place) -> None:
        """There is a main session, which nobody has used."""
        era, transport = main.session.era, main.session.transport
        self.main = main
        main.want_level(self._level)
        self.sharing = sharing_of(self.config, era, transport, self.is_interactive)
        self._everybody = self.config.across_principals or (era is Era.MODERN and transport != "stdio")
        self.moved()

    def main_lost(self) -> None:
        """There is none any more; the other sessions go on."""
        if self.main is not None:
            self._forget(self.main)
            self.main = None
            self.moved()

    # --- another configuration ----------------------------------------------------------------------------------------

    def adjust(self, config: UpstreamConfig) -> None:
        """Take over settings that need no other session."""
        self.config = config

    def retire(self) -> None:
        """Let no call find a session any more; each is closed when those that have it are over. What is being opened is
        given up."""
        self.retired = True
        for place in list(self.places):
            self.let_go(place)
            if not place.is_open:
                place.scope.cancel()
        if self.main is not None:
            self.places[self.main] = None  # tasks that live in it find it there
        self.main_lost()

    # --- whose session is it? -----------------------------------------------------------------------------------------

    def find(self, caller: Caller, *, claims: bool = True) -> Place | None:
        """The open session that serves `caller`; None: there is none yet, or it is not good enough.

        `claims`: the account of `caller` has it from now on, if none had. Else `caller` only looks: it takes nothing
        by that, and is refused nothing.

        Raises:
            UpstreamUnavailable: there never will be, as the upstream is configured.
        """
        if self._served:
            place = self._served.get(caller.tenant)
            if place is not None:
                return place if not place.terms.exclusive or self._suits(place, caller) else None
        return self._share(caller, claims=claims)

    def serving(self, caller: Caller) -> Place | None:
        """As `find`, but good enough is any: for what the upstream asks nobody about, as it does during calls."""
        return self._served.get(caller.tenant) or self._share(caller)

    def lodging(self, caller: Caller) -> Place | None:
        """The main session, if nobody has it, for the watches of a host that `is_shy`: until its first call."""
        if self.main is None or self.main in self._served.values() or not self.is_shy(caller):
            return None
        return self._common(caller.identity.principal)

    def is_shy(self, caller: Caller) -> bool:
        """Whether only a call can open the session of `caller`'s host: it tells its roots in no other way."""
        if caller.era is Era.LEGACY or self.sharing not in EXCLUSIVE:
            return False
        return is_welcoming(terms_of(self.config, caller.capabilities))

    def _share(self, caller: Caller, *, claims: bool = True) -> Place | None:
        """The shared session that is open and that `caller` may use."""
        if self.sharing is None or self.sharing in EXCLUSIVE:
            return None
        return self._common(caller.identity.principal, claims=claims)

    def _common(self, principal: str, *, claims: bool = True) -> Place | None:
        """What the hosts of an account have together."""
        place = self._shared.get(principal) or self.main
        if place is None or self._everybody:
            return place
        if place.principal is None:
            place.principal = principal if claims else None
        elif place.principal != principal:
            if claims and self.sharing is Sharing.SINGLETON:
                raise self._not_for_others()
            return None
        return place

    def _suits(self, place: Place, caller: Caller) -> bool:
        if caller.capabilities is place.suits or caller.capabilities == place.suits:
            return True
        if not covers(place.terms.capabilities, terms_of(self.config, caller.capabilities).capabilities):
            return False
        place.suits = caller.capabilities if caller.lasting else detached(caller.capabilities)
        return True

    def _not_for_others(self) -> HubError:
        text = f'{self.name} may run only once (session_mode = "singleton") and is in use by another account.'
        text += " Set across_principals = true in its configuration if accounts may share it, or"
        return UpstreamUnavailable(f'{text} session_mode = "shared" for one session each.', upstream=self.name)

    def named(self, id: str) -> Place | None:
        """The open session of this name, for those who know it; None: it is over."""
        return next((place for place in self.open_places() if place.id == id), None)

    # --- opened, and over ---------------------------------------------------------------------------------------------

    def owner(self, caller: Caller) -> Tenant | str:
        """Whose a session is that is opened for `caller`: its host's, or its account's.

        Raises:
            UpstreamUnavailable: that host has left.
        """
        if caller.tenant in self._gone:
            raise UpstreamUnavailable(f"The host of this call has left; {self.name} was not asked")
        return caller.tenant if self.sharing in EXCLUSIVE else caller.identity.principal

    def known(self, tenant: Tenant, caller: Caller) -> dict[str, Raw]:
        """What a host can do: what `caller` declares, and what it declared when a session was opened for it."""
        smaller = self._served.get(tenant)
        return union(smaller.known if smaller else {}, detached(caller.capabilities))

    def make_room(self) -> None:
        """Let the session that was idle longest give way, if there are too many.

        Raises:
            Overloaded: all are in use.
        """
        staying = [place for place in self.places if not place.scope.cancel_called]
        most = MAX_SESSIONS if self.config.url is None else MAX_WEB_SESSIONS
        if len(staying) < most:
            return
        now = trio.current_time()
        idle = [each for each in staying if not each.holders and not each.watches.held and each.needed_until <= now]
        if not idle:
            text = f"{self.name} has {most} sessions, one for each host, and all are in use; try again later"
            raise Overloaded(text, upstream=self.name)
        self.let_go(min(idle, key=lambda place: place.idle_since))

    def expected(self, owner: Tenant | str) -> Place | None:
        """What is being opened for `owner`."""
        return self._opening.get(owner)

    def expect(self, owner: Tenant | str, place: Place) -> None:
        """`place` is being opened for `owner`."""
        self.places[place] = None
        self._opening[owner] = place

    def opened(self, place: Place) -> None:
        """It is open; no call finds it until it is `ready`."""
        place.want_level(self._level)

    def ready(self, place: Place) -> None:
        """Let calls find it."""
        keys = [key for key, found in self._opening.items() if found is place]
        for key in keys:  # one, or none if it is over or its tenant is gone
            del self._opening[key]
            if isinstance(key, str):
                self._shared[key] = place
                if self.sharing in EXCLUSIVE:
                    self.let_go(place)
                continue
            smaller = self._served.get(key)
            self._served[key] = place
            if smaller is not None and smaller.terms.exclusive:
                self.let_go(smaller)
        self.moved()

    def let_go(self, place: Place) -> None:
        """Give it to no more calls; it is closed when those that have it are over."""
        self._forget(place)
        place.retire()

    def ended(self, place: Place) -> None:
        """It is over."""
        self._forget(place)
        self.moved()

    def closed(self, place: Place) -> None:
        """Nothing is left of it."""
        del self.places[place]

    def _forget(self, place: Place) -> None:
        """Take it out of all tables: it will not be found any more."""
        place.missed()
        tables: tuple[dict[Any, Place], ...] = (self._served, self._shared, self._opening)
        for table in tables:
            for key in [key for key, found in table.items() if found is place]:
                del table[key]

    # --- what hosts and upstreams do ----------------------------------------------------------------------------------

    def left(self, tenant: Tenant) -> None:
        """A host is gone: so is what it had for itself, once its calls are over."""
        for place in (self._served.pop(tenant, None), self._opening.get(tenant)):
            if place is not None and place.terms.exclusive:
                self.let_go(place)
        for place in self.open_places():
            if place.last == tenant:
                place.last = None
            if place.tenant == tenant and not place.terms.exclusive:
                self._give(place, None)
        if tenant.conversation:
            self._gone[tenant] = None
            if len(self._gone) > MAX_GONE:
                del self._gone[next(iter(self._gone))]
        self.moved()

    def roots_changed(self, tenant: Tenant) -> None:
        """The roots of a host are others now: tell the upstream, on its own session."""
        for place in self.open_places():
            if place.terms.exclusive and place.tenant == tenant and place.terms.roots is None:
                place.session.roots_changed()

    def want_level(self, level: str | None) -> None:
        """The least severe level any host wants to hear, None for none: every session is told the same."""
        self._level = level
        for place in self.open_places():
            place.want_level(level)

    @property
    def is_interactive(self) -> bool:
        """Whether it is remembered that the upstream asks questions."""
        return self._memory.get(INTERACTIVE, config_key(self.config)) is True

    def asked(self) -> None:
        """It asked a question: from now on every host has a session of its own, if that was left open (16.3)."""
        if self.sharing is not Sharing.SHARED or self.config.session_mode != "auto":
            return
        self.sharing = Sharing.INTERACTIVE
        self._memory.put(INTERACTIVE, config_key(self.config), True)
        log.info("%s asks its hosts questions: from now on each host has a session of its own", self.name)
        for place in [*([self.main] if self.main else []), *self._shared.values()]:
            last = place.last
            # One whose requests stand alone would be a stranger to its own parked calls there: `attribution.owner`.
            plain = not (place.mixed or place.crowded)
            if last is not None and last.conversation and last not in self._gone and plain:
                self._served[last] = place
                self._give(place, last)
            elif place is self.main:
                place.missed()
            else:
                self.let_go(place)
        self._shared.clear()
        self.moved()

    def forget_interactive(self) -> None:
        """Take back what `asked` did: hosts without a session share the main one again."""
        self._memory.put(INTERACTIVE, config_key(self.config), None)
        if self.sharing is Sharing.INTERACTIVE:
            self.sharing = Sharing.SHARED
            for place in self.open_places():
                if not place.terms.exclusive:
                    self._give(place, None)
            self.moved()

    def _give(self, place: Place, tenant: Tenant | None) -> None:
        """Note who has it alone that others used before; None: nobody has."""
        place.missed()
        place.tenant = tenant
