"""Which session serves which host (bridging.md 5.2, 6, 16; D-13, D-17).

Every upstream has a main session, which the supervisor runs: it reads the lists and hears what changes. Whether hosts
share it is decided when it opens:

    SHARED       the hosts of one account share it; other accounts have one for all their hosts
    SINGLETON    as SHARED, but there is no other: other accounts are refused
    PER_HOST     nobody uses it; each host has a session for itself, opened by its first operation
    INTERACTIVE  as PER_HOST, from the first question that the upstream asked on; the host that used the main session
                 last goes on with it, alone, unless another's call is still with it (16.3)

What always holds: a session that served one account never serves another, unless the configuration says that it may;
one that belongs to a tenant serves nobody else, and is closed when the tenant is gone or was idle for long.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import trio

from config.schema import UpstreamConfig
from hub.link.exchange import Caller, Exchange, HubError, Overloaded, Tenant, UpstreamUnauthorized, UpstreamUnavailable
from hub.wire.abilities import covers
from hub.wire.legacy import detached
from hub.wire.mcp import Era
from upstreams.listening import keep_watching
from upstreams.onlooker import NOBODY
from upstreams.pacing import Pacing
from upstreams.place import GUARD_S, Place
from upstreams.probe import config_key
from upstreams.session import EraMemory, Session, SessionEvents, Terms, UpstreamEvents
from upstreams.sharing import EXCLUSIVE, Sharing, sharing_of, terms_of, union

log = logging.getLogger(__name__)

MAX_SESSIONS: Final = 32
MAX_WEB_SESSIONS: Final = 1024
"""Of one upstream, beside the main one: processes, and sessions over HTTP, which cost little."""
MAX_GONE: Final = 64
"""Hosts that have left, which are remembered until all their calls must have noticed."""
INTERACTIVE: Final = "interactive"
"""The section of the memory that names upstreams that have asked."""


class Memory(EraMemory, Protocol):
    """What is remembered between runs; `config.state.Memory` is one."""

    def get(self, section: str, key: str) -> object: ...

    def put(self, section: str, key: str, value: object) -> None: ...


class Opener(Protocol):
    """How a session is made; `upstreams.session.open_session`, or a test's own."""

    def __call__(
        self, config: UpstreamConfig, name: str, events: SessionEvents, memory: EraMemory, terms: Terms, /
    ) -> Session: ...


class _Events:
    """What a session says. Its end, and what it was told to watch, concern only those whose it is."""

    def __init__(self, upstream: UpstreamEvents, place: Place, ended: Callable[[], None]) -> None:
        self.changed = upstream.changed
        self.log = upstream.log
        self.said = upstream.said
        self.exited = upstream.exited
        self.note = upstream.note
        self.updated = place.watches.updated
        self.forgotten = place.forgotten
        self.hears = place.watches.hears
        self.asked = upstream.asked
        self.unattributed = upstream.unattributed
        self.elicited = upstream.elicited
        self.ended = ended


def _is_welcoming(terms: Terms) -> bool:
    """Whether a host is introduced before its first operation: it has roots, which a server may want to know."""
    return terms.exclusive and "roots" in terms.capabilities and terms.roots is None


def _nothing() -> None:
    pass


class Pool:
    """The sessions of one upstream. `main` is set and unset by the supervisor; `run` keeps the others."""

    def __init__(
        self,
        name: str,
        config: UpstreamConfig,
        events: UpstreamEvents,
        memory: Memory,
        open_session: Opener,
        slots: trio.Semaphore,
    ) -> None:
        self.main: Place | None = None
        self.sharing: Sharing | None = None
        """None: nothing is known of it yet."""
        self.places: dict[Place, None] = {}
        """All but the main one, those that are being opened or closed included."""
        self.moved: Callable[[], None] = _nothing
        """Called whenever a host may have another session than before."""
        self.onlooker = NOBODY
        """Of all sessions."""
        self._name = name
        self._config = config
        self._events = events
        self._memory = memory
        self._open_session = open_session
        self._slots = slots
        self._nursery: trio.Nursery | None = None
        self._retired = False
        """No call may have a session here any more."""
        self._everybody = False
        """Whether accounts do not matter."""
        self._served: dict[Tenant, Place] = {}
        """What one host has for itself."""
        self._shared: dict[str, Place] = {}
        """What the hosts of an account share, beside the main session."""
        self._opening: dict[Tenant | str, Place] = {}
        self._gone: dict[Tenant, None] = {}
        self._level: str | None = None
        self._pacing = Pacing(name)
        self.refused_with: HubError | None = None
        """Why the last one could not be opened."""
        self.severity = logging.WARNING
        """How much that matters."""

    def __repr__(self) -> str:
        mode = self.sharing.value if self.sharing else "unknown"
        return f"<Pool {self._name} {mode} [{len(self)} open, {len(self._opening)} opening]>"

    def __len__(self) -> int:
        """How many sessions are open."""
        return len(self.open_places())

    def open_places(self) -> list[Place]:
        """Those of all open sessions, the main one first."""
        every = [*([self.main] if self.main else []), *self.places]
        return [place for place in every if place.is_open and not place.over and not place.scope.cancel_called]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be ready to open sessions until cancelled, which closes them in order."""
        self._pacing.reset()
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    # --- the main session ---------------------------------------------------------------------------------------------

    def make_main(self) -> Place:
        """The main session, unopened."""
        terms = terms_of(self._config)
        return Place(self._name, self._config.timeouts, self._make_main, terms, onlooker=self.onlooker)

    def _make_main(self, place: Place) -> Session:
        events = _Events(self._events, place, self._events.ended)
        return self._open_session(self._config, self._name, events, self._memory, place.terms)

    def main_opened(self, main: Place) -> None:
        """There is a main session, which nobody has used."""
        era, transport = main.session.era, main.session.transport
        self.main = main
        main.want_level(self._level)
        self.sharing = sharing_of(self._config, era, transport, self.is_interactive)
        self._everybody = self._config.across_principals or (era is Era.MODERN and transport != "stdio")
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
        self._config = config

    def retire(self) -> None:
        """Let no call find a session any more; each is closed when those that have it are over. What is being opened is
        given up."""
        self._retired = True
        for place in list(self.places):
            self._retire(place)
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
        return _is_welcoming(terms_of(self._config, caller.capabilities))

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
        if not covers(place.terms.capabilities, terms_of(self._config, caller.capabilities).capabilities):
            return False
        place.suits = caller.capabilities if caller.lasting else detached(caller.capabilities)
        return True

    def _not_for_others(self) -> HubError:
        text = f'{self._name} may run only once (session_mode = "singleton") and is in use by another account.'
        text += " Set across_principals = true in its configuration if accounts may share it, or"
        return UpstreamUnavailable(f'{text} session_mode = "shared" for one session each.', upstream=self._name)

    def named(self, id: str) -> Place | None:
        """The open session of this name, for those who know it; None: it is over."""
        return next((place for place in self.open_places() if place.id == id), None)

    # --- opening ------------------------------------------------------------------------------------------------------

    async def open(self, exchange: Exchange) -> Place:
        """The session for a host that `find` has none for, when it is open and the host has been welcomed on it.

        Several calls of one host that need one open one.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it cannot be opened, or could not lately.
            Overloaded: there are too many, and all are in use.
        Cancellation: leaves it to the calls that come after.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        caller = exchange.caller
        if caller.tenant in self._gone:
            raise UpstreamUnavailable(f"The host of this call has left; {self._name} was not asked")
        key = caller.tenant if self.sharing in EXCLUSIVE else caller.identity.principal
        place = self._opening.get(key) or self._start(key, caller)
        place.holders += 1
        try:
            with trio.move_on_after(self._config.timeouts.start + 2 * GUARD_S):
                await place.opened.wait()
            if not place.is_open:
                raise self._failure(place.error)
            await self._welcome(place, exchange)
            if self._retired:  # meanwhile: the call goes to whoever is in its place
                raise self._failure(None)
        except BaseException:
            place.release()
            raise
        place.holders -= 1  # the call takes it over
        return place

    def _start(self, key: Tenant | str, caller: Caller) -> Place:
        nursery = self._nursery
        if nursery is None:
            raise self._pacing.too_soon(1, "it is being stopped")
        not_before = self._pacing.not_before(key, self._config.timeouts.start)
        self._make_room()
        make = partial(Place, self._name, self._config.timeouts, self._make, onlooker=self.onlooker)
        if isinstance(key, str):
            place = make(terms_of(self._config), principal=key)
        else:
            smaller = self._served.get(key)
            known = union(smaller.known if smaller else {}, detached(caller.capabilities))
            place = make(terms_of(self._config, known), tenant=key)
            place.known = place.suits = known
        place.not_before = not_before
        self.places[place] = None
        self._opening[key] = place
        nursery.start_soon(self._keep, place)
        return place

    def _make(self, place: Place) -> Session:
        events = _Events(self._events, place, partial(self._ended, place))
        return self._open_session(self._config, self._name, events, self._memory, place.terms)

    def _make_room(self) -> None:
        """Let the session that was idle longest give way, if there are too many."""
        staying = [place for place in self.places if not place.scope.cancel_called]
        most = MAX_SESSIONS if self._config.url is None else MAX_WEB_SESSIONS
        if len(staying) < most:
            return
        now = trio.current_time()
        idle = [each for each in staying if not each.holders and not each.watches.held and each.needed_until <= now]
        if not idle:
            text = f"{self._name} has {most} sessions, one for each host, and all are in use; try again later"
            raise Overloaded(text, upstream=self._name)
        self._retire(min(idle, key=lambda place: place.idle_since))

    def _failure(self, error: HubError | None) -> HubError:
        """What a call is told whose session could not be opened: an error of its own."""
        if error is None:
            text = f"{self._name} was not connected to for this host in time, or is being stopped; try again"
            return UpstreamUnavailable(text, upstream=self._name)
        text = f"{self._name} could not be connected to for this host: {error}."
        if self._config.command is not None:
            text += ' If it can run only once, set session_mode = "singleton" in its configuration.'
        kind = UpstreamUnauthorized if isinstance(error, UpstreamUnauthorized) else UpstreamUnavailable
        return kind(text, upstream=self._name)

    async def _welcome(self, place: Place, exchange: Exchange) -> None:
        """Answer, on behalf of the first call, what a server asks as soon as it is connected (7.1)."""
        if not _is_welcoming(place.terms):
            return
        if place.greeting is None:
            place.greeting = trio.Event()
            try:
                await place.session.welcome(exchange)
            finally:
                place.greeting.set()
                self._ready(place)
        else:
            with trio.move_on_after(self._config.timeouts.start):
                await place.greeting.wait()

    def _ready(self, place: Place) -> None:
        """Let calls find it."""
        keys = [key for key, found in self._opening.items() if found is place]
        for key in keys:  # one, or none if it is over or its tenant is gone
            del self._opening[key]
            if isinstance(key, str):
                self._shared[key] = place
                if self.sharing in EXCLUSIVE:
                    self._retire(place)
                continue
            smaller = self._served.get(key)
            self._served[key] = place
            if smaller is not None and smaller.terms.exclusive:
                self._retire(smaller)
        self.moved()

    # --- the life of a session of the pool ----------------------------------------------------------------------------

    async def _keep(self, place: Place) -> None:
        try:
            error = await place.run(self._slots, partial(self._opened, place), partial(self._ended, place))
        finally:
            del self.places[place]
        if error is not None and not place.is_open:
            self._pacing.failed(str(error))
            self.refused_with = error
            log.log(self.severity, "%s: no further session could be opened: %s", self._name, error)
            self._events.note(f"no further session could be opened: {error}")
        elif error is not None:
            self._pacing.fell(place.tenant if place.terms.exclusive else place.principal, str(error))
            log.info("%s: the session of one host ended: %s", self._name, error)
            self._events.note(f"the session of one host ended: {error}")

    def _opened(self, place: Place, nursery: trio.Nursery) -> None:
        self._pacing.opened()
        place.want_level(self._level)
        nursery.start_soon(self._expire, place)
        nursery.start_soon(keep_watching, place.session, place.watches, self._events)
        if not _is_welcoming(place.terms):
            self._ready(place)
        log.info("%s: one more session is open, %d in all", self._name, len(self))
        self._events.note(f"one more session is open, {len(self)} in all")

    async def _expire(self, place: Place) -> None:
        """Close the session when no call has used it for `timeouts.session_idle`, and nothing is watched over it."""
        idle_s = self._config.timeouts.session_idle
        due = trio.current_time() + idle_s
        while trio.current_time() < due:
            await trio.sleep_until(due)
            used = trio.current_time() if place.holders or place.watches.held else place.idle_since
            due = max(used + idle_s, place.needed_until)
        self._retire(place)

    def _retire(self, place: Place) -> None:
        """Give it to no more calls; close it when those that have it are over."""
        self._forget(place)
        place.retired = True
        if not place.holders and place.needed_until <= trio.current_time():
            place.scope.cancel()  # else `_expire` will

    def _ended(self, place: Place) -> None:
        self._forget(place)
        self.moved()

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
                self._retire(place)
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
        return self._memory.get(INTERACTIVE, config_key(self._config)) is True

    def asked(self) -> None:
        """It asked a question: from now on every host has a session of its own, if that was left open (16.3)."""
        if self.sharing is not Sharing.SHARED or self._config.session_mode != "auto":
            return
        self.sharing = Sharing.INTERACTIVE
        self._memory.put(INTERACTIVE, config_key(self._config), True)
        log.info("%s asks its hosts questions: from now on each host has a session of its own", self._name)
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
                self._retire(place)
        self._shared.clear()
        self.moved()

    def forget_interactive(self) -> None:
        """Take back what `asked` did: hosts without a session share the main one again."""
        self._memory.put(INTERACTIVE, config_key(self._config), None)
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
