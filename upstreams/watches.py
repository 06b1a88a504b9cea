"""The resources that hosts watch over one session: who does, and whether the upstream knows of it (bridging.md 8).

    WANTED --> ASKED --> LIVE ---> ENDING --> gone    the last holder has left, and `LINGER_S` are over
      ^           `----> REFUSED                      whoever asked is told
      `---- from anywhere, when the session is renewed: what was LIVE is asked for again and then changes may have been
            missed, so its holders are told that it changed (N-17)

A session that ends takes its watches with it; `upstreams.holdings` knows where their holders go. State changes in sync
methods only. A keeper makes the upstream know what is wanted: `upstreams.subscribing` for legacy upstreams,
`upstreams.listening` for modern ones.

The hub itself may observe a resource, too, to know how long a copy of it is good. That is a reason for a watch, but
nobody is told for it but the onlooker, and it keeps nothing open: for all else it is as if nobody watched.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from itertools import chain
from math import inf
from typing import Final, Protocol

import trio

from hub.link.exchange import Exchange, HubError, UpstreamLost
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import INVALID_PARAMS, Kind
from hub.wire.parts import MAX_URI_CHARS, wholes
from upstreams.onlooker import NOBODY, Onlooker

log = logging.getLogger(__name__)

LINGER_S: Final = 30.0
"""How long a watch outlives its last holder, who may only be coming back."""
ANSWER_S: Final = 30.0
"""How long an upstream may take to agree."""
RETRY_S: Final = 30.0
MAX_STRAYS: Final = 64
MAX_LET_GO: Final = 256
MAX_PART_CHARS: Final = 8192
"""Of a sub-resource that changed: nobody is told of longer ones, since what is told may have to be kept."""


class Holder(Protocol):
    """Who is told of changes: a legacy session of a host, or one listen stream. Told apart by identity."""

    @property
    def host(self) -> Hashable:
        """Which host it belongs to."""
        ...

    @property
    def exchange(self) -> Exchange:
        """The operation by which it last asked to be told of something; it may be over."""
        ...

    def updated(self, upstream: str, uri: str) -> None:
        """`uri`, as the upstream writes it, changed. Never blocks."""
        ...


class Stand(Enum):
    """Where a watch stands with the upstream."""

    WANTED = "wanted"
    ASKED = "asked"
    LIVE = "live"
    REFUSED = "refused"
    ENDING = "ending"


class Attempt:
    """One attempt to have a watch agreed on; for whoever waits for how it ends."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.refusal: Failure | HubError | None = None


class Watch:
    """One watched resource."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.holders: dict[Holder, bool] = {}
        """And whether the upstream has agreed to it before, in this session or another."""
        self.stand = Stand.WANTED
        self.attempt = Attempt()
        self.observed = False
        """The hub itself has a use for it."""
        self.until = inf
        """When it ends, having no holders and not being observed."""
        self.again_at = inf
        """When to ask for it again, having been refused what was agreed to before."""

    @property
    def is_known(self) -> bool:
        """Whether somebody was told that it is watched."""
        return any(self.holders.values())

    @property
    def is_wanted(self) -> bool:
        """Whether there is any reason for it."""
        return self.observed or bool(self.holders)

    def __repr__(self) -> str:
        observed = " and observed" if self.observed else ""
        return f"<Watch {self.uri} {self.stand.value}, {len(self.holders)} holders{observed}>"


class Watches:
    """All watches over one session. `news` is set when its keeper has something to do.

    `onlooker` hears of every change before any holder does; `missed` is called when changes may not have been heard.
    """

    def __init__(self, upstream: str, onlooker: Onlooker = NOBODY, missed: Callable[[], None] = lambda: None) -> None:
        self.upstream = upstream
        self.news = trio.Event()
        self.missed = missed
        self.resets = 0
        """What was asked before the last of these is of no importance."""
        self.lists_told: dict[Kind, float] = {}
        """The lists of whose changes a modern upstream tells, and since when."""
        self.heard_since = -inf
        """Since when the upstream is heard when it says something unasked; `inf`: it is not."""
        self._onlooker = onlooker
        self._watches: dict[str, Watch] = {}
        self._hosts: Counter[Hashable] = Counter()
        self._strays: dict[str, None] = {}
        """What changed lately that nobody had asked for by this name: parts of what the only host here watches."""
        self._let_go: dict[str, float] = {}
        """What was observed till lately, and until when the upstream may still speak of it for that reason."""
        self._over = False

    def __repr__(self) -> str:
        live = sum(watch.stand is Stand.LIVE for watch in self._watches.values())
        return f"<Watches of {self.upstream}: {len(self._watches)}, {live} live>"

    def __iter__(self) -> Iterator[Watch]:
        return iter(list(self._watches.values()))

    @property
    def held(self) -> bool:
        """Whether any host watches anything."""
        return bool(self._hosts)

    # --- what hosts want ----------------------------------------------------------------------------------------------

    async def watch(self, uri: str, holder: Holder) -> Failure | None:
        """Watch `uri` for `holder`; None once the upstream agreed, else why it did not. Deadlines are the caller's.

        Raises:
            HubError: it could not be asked.
        Cancellation: the holder does not hold it.
        """
        if self._over:
            raise self._lost()
        if len(uri) > MAX_URI_CHARS:
            return Failure(INVALID_PARAMS, f"A URI to subscribe to has at most {MAX_URI_CHARS} characters")
        watch = self._hold(uri, holder)
        if watch.stand is Stand.LIVE:
            watch.holders[holder] = True
            return None
        attempt = watch.attempt
        agreed = False
        try:
            await attempt.over.wait()
            agreed = attempt.refusal is None
        finally:
            if not agreed and not watch.holders.get(holder):
                self.unwatch(uri, holder)
        if isinstance(attempt.refusal, HubError):
            raise attempt.refusal
        return attempt.refusal

    def adopt(self, uri: str, holder: Holder) -> None:
        """Watch `uri` for `holder`, who has been told that it is watched, and who may have missed changes till now."""
        if self._over:
            return
        watch = self._hold(uri, holder)
        watch.holders[holder] = True
        if watch.stand is Stand.LIVE:
            holder.updated(self.upstream, uri)

    def _hold(self, uri: str, holder: Holder) -> Watch:
        watch = self._watches.get(uri)
        if watch is None:
            watch = self._watches[uri] = Watch(uri)
        if holder not in watch.holders:
            watch.holders[holder] = False
            self._hosts[holder.host] += 1
        watch.until = inf
        self._need(watch)
        return watch

    def _need(self, watch: Watch) -> None:
        """Have it asked for, unless the upstream knows of it."""
        if watch.stand is Stand.ENDING and watch.attempt.over.is_set():
            watch.attempt = Attempt()
        elif watch.stand is Stand.REFUSED:
            self._want(watch)
        if watch.stand is not Stand.LIVE:
            self.ring()

    def is_held(self, uri: str, holder: Holder) -> bool:
        """Whether `holder` watches it, and the upstream has agreed to that."""
        watch = self._watches.get(uri)
        return watch is not None and watch.stand is Stand.LIVE and holder in watch.holders

    def unwatch(self, uri: str, holder: Holder) -> None:
        """`holder` watches it no longer. The last one's end is the end of the watch, after a while."""
        watch = self._watches.get(uri)
        if watch is None or holder not in watch.holders:
            return
        del watch.holders[holder]
        self._hosts[holder.host] -= 1
        if not self._hosts[holder.host]:
            del self._hosts[holder.host]
        if not watch.holders:
            self._unused(watch)

    def _unused(self, watch: Watch) -> None:
        if watch.stand in (Stand.WANTED, Stand.REFUSED) and not watch.observed:
            self.forget(watch)
        watch.until = trio.current_time() + LINGER_S
        self.ring()

    # --- what the hub itself observes ---------------------------------------------------------------------------------

    async def observe(self, uri: str) -> bool:
        """Observe `uri`; whether the upstream has agreed to that. Deadlines are the caller's.

        If it does not agree, then or after the session was renewed, it is observed no more.

        Cancellation: it is observed all the same, when the upstream agrees; `neglect` ends that.
        """
        if self._over or len(uri) > MAX_URI_CHARS:
            return False
        watch = self._watches.get(uri)
        if watch is None:
            watch = self._watches[uri] = Watch(uri)
        if not watch.observed:
            watch.observed = True
            self._need(watch)
            if watch.stand is Stand.LIVE:
                self._onlooker.confirmed(uri)
        if watch.stand is not Stand.LIVE:
            await watch.attempt.over.wait()
        return self.is_observed(uri)

    def is_observed(self, uri: str) -> bool:
        """Whether the hub is told of changes of `uri`, by its own wish, now."""
        watch = self._watches.get(uri)
        return watch is not None and watch.observed and watch.stand is Stand.LIVE and self.heard_since < inf

    def neglect(self, uri: str) -> None:
        """It is observed no longer. If no host watches it, that is its end."""
        watch = self._watches.get(uri)
        if watch is None or not watch.observed:
            return
        watch.observed = False
        if watch.holders:
            return
        if watch.stand is Stand.WANTED:
            self.forget(watch)
        now = trio.current_time()
        watch.until = max(watch.until, now) if watch.until < inf else now
        self._let_go.pop(uri, None)
        self._let_go[uri] = now + LINGER_S
        if len(self._let_go) > MAX_LET_GO:
            del self._let_go[next(iter(self._let_go))]
        self.ring()

    def hears(self, on: bool) -> None:
        """Whether the upstream is heard when it says something unasked. At first it is."""
        if on == (self.heard_since < inf):
            return
        self.heard_since = trio.current_time() if on else inf
        self.missed()
        if on:
            for watch in self.standing(Stand.LIVE):
                if watch.observed:
                    self._onlooker.confirmed(watch.uri)

    # --- what the upstream says ---------------------------------------------------------------------------------------

    def updated(self, uri: str) -> None:
        """Tell the onlooker, then those concerned, that `uri` changed, and nobody else (N-15)."""
        self.note(uri)
        self.tell(uri)

    def note(self, uri: str) -> None:
        """Tell the onlooker that `uri` changed; those concerned are told by and by."""
        self._onlooker.updated(uri)

    def tell(self, uri: str) -> None:
        """Tell those concerned, of which the onlooker knows."""
        if len(uri) > MAX_PART_CHARS:
            log.debug("%s says that something changed whose URI has %d characters", self.upstream, len(uri))
            return
        for holder in self.concerned(uri):
            holder.updated(self.upstream, uri)

    def concerned(self, uri: str) -> list[Holder]:
        """Whose business a change of `uri` is (N-11): of those who watch it, else of those who watch what it is a part
        of, else of the one host that watches anything here."""
        left = ours = False
        now = trio.current_time()
        for each in chain((uri,), wholes(uri)):
            watch = self._watches.get(each)
            if watch is not None and watch.holders:
                return list(watch.holders)
            left = left or (watch is not None and (not watch.observed or now < watch.until < inf))
            ours = ours or watch is not None or self._let_go.get(each, 0.0) > now
        if left or len(self._hosts) != 1:  # the former: it is the business of one who has just left
            return []
        if ours and uri not in self._strays:
            return []
        self._note_stray(uri)
        return list({holder: None for watch in self._watches.values() for holder in watch.holders})

    def _note_stray(self, uri: str) -> None:
        """The upstream has spoken of it for the sake of something else. A host that hears of it may read it, and the
        hub observe it then; the host must hear of it as before."""
        self._strays.pop(uri, None)
        self._strays[uri] = None
        if len(self._strays) > MAX_STRAYS:
            del self._strays[next(iter(self._strays))]

    # --- what keepers do ----------------------------------------------------------------------------------------------

    def ring(self) -> None:
        """There is something to do for the keeper."""
        self.news.set()

    async def wait(self) -> None:
        """Wait for something to do; at the latest until a watch is over, or to be asked for again."""
        ends = [watch.until for watch in self._watches.values() if not watch.observed]
        with trio.move_on_at(min(chain(ends, (watch.again_at for watch in self._watches.values())), default=inf)):
            await self.news.wait()
        self.news = trio.Event()
        for watch in self.standing(Stand.REFUSED):
            if watch.again_at <= trio.current_time():
                self._want(watch)

    def standing(self, *stands: Stand) -> list[Watch]:
        """Those that stand so."""
        return [watch for watch in self._watches.values() if watch.stand in stands]

    def overdue(self) -> list[Watch]:
        """Those that nobody has come back to."""
        now = trio.current_time()
        return [watch for watch in self._watches.values() if watch.until <= now and not watch.observed]

    def confirm(self, watch: Watch) -> None:
        """The upstream agreed. What it agreed to before may have changed meanwhile."""
        watch.stand = Stand.LIVE
        watch.attempt.over.set()
        if watch.observed:
            self._onlooker.confirmed(watch.uri)
        for holder in [holder for holder, known in watch.holders.items() if known]:
            holder.updated(self.upstream, watch.uri)
        watch.holders = dict.fromkeys(watch.holders, True)
        if not watch.is_wanted:
            self._unused(watch)

    def refuse(self, watch: Watch, refusal: Failure | HubError) -> None:
        """The upstream did not agree, or could not be asked. Who held it before holds it still, for a better day."""
        watch.stand, watch.observed = Stand.REFUSED, False
        watch.attempt.refusal = refusal
        watch.attempt.over.set()
        if not watch.holders:
            self.forget(watch)
        elif watch.is_known:
            watch.again_at = trio.current_time() + RETRY_S
            self.ring()

    def _want(self, watch: Watch) -> None:
        if watch.attempt.over.is_set():
            watch.attempt = Attempt()
        watch.stand, watch.again_at = Stand.WANTED, inf

    def forget(self, watch: Watch) -> None:
        """The watch is over."""
        if self._watches.get(watch.uri) is watch:
            del self._watches[watch.uri]
        self._fail(watch)

    def ended(self, watch: Watch) -> None:
        """The upstream knows of it no longer."""
        if watch.is_wanted:  # somebody came back while it ended
            self._want(watch)
            self.ring()
        else:
            self.forget(watch)

    def reset(self) -> None:
        """The upstream knows of nothing any more: all has to be asked for."""
        self.resets += 1
        now = trio.current_time()
        for watch in list(self._watches.values()):
            if not watch.is_wanted and (watch.stand is Stand.ENDING or watch.until <= now):
                self.forget(watch)
            elif watch.stand is not Stand.WANTED:
                self._want(watch)
        self.ring()

    def end(self) -> None:
        """The session is over: nothing is watched here, and never will be."""
        self._over = True
        for watch in self._watches.values():
            self._fail(watch)
        self._watches.clear()
        self._hosts.clear()

    def _fail(self, watch: Watch) -> None:
        """Let nobody wait for it any more."""
        if not watch.attempt.over.is_set():
            watch.attempt.refusal = self._lost()
            watch.attempt.over.set()

    def _lost(self) -> HubError:
        return UpstreamLost(f"{self.upstream} ended before it took a subscription", upstream=self.upstream)


def not_offered(upstream: str, uri: str) -> Failure:
    """The answer to a subscription that the upstream has no means for, or does not agree to (bridging.md 4)."""
    data = raw({"hub": "not_subscribable", "upstream": upstream, "uri": uri})
    return Failure(INVALID_PARAMS, f"{upstream} does not take subscriptions to {uri}: it is not subscribable", data)
