"""The resources that hosts watch over one session, and the hub itself: each is a
`upstreams.subscriptions.subscription.Watch`.

A session that ends takes its watches with it; `upstreams.host_subscriptions` knows where their holders go. State
changes in sync methods only. A keeper makes the upstream know what is wanted: `upstreams.subscriptions.legacy` for
legacy upstreams, `upstreams.subscriptions.modern` for modern ones.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from math import inf
from typing import Final

import trio

from hub.link.interface import HubError, UpstreamLost, kept
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.uri_parents import MAX_URI_CHARS
from upstreams.invalidation import NOBODY, Onlooker
from upstreams.questions.recent_calls import NOBODY as SEVERAL
from upstreams.subscriptions.coverage import Coverage
from upstreams.subscriptions.fanout import Fanout
from upstreams.subscriptions.subscription import LINGER_S, Attempt, Holder, Stand, Watch

log = logging.getLogger(__name__)

ANSWER_S: Final = 30.0
"""How long an upstream may take to agree."""
RETRY_S: Final = 30.0
MAX_PART_CHARS: Final = 8192
"""Of a sub-resource that changed: nobody is told of longer ones, since what is told may have to be kept."""


class Watches:
    """All watches over one session. `news` is set when its keeper has something to do.

    `onlooker` hears of every change before any holder does. `others` says whether any host but one uses the session, or
    did only lately.
    """

    def __init__(
        self,
        upstream: str,
        onlooker: Onlooker = NOBODY,
        hearing: Coverage | None = None,
        others: Callable[[Hashable], bool] = lambda host: False,
    ) -> None:
        self.upstream = upstream
        self.news = trio.Event()
        self.resets = 0
        """What was asked before the last of these is of no importance."""
        self._onlooker = onlooker
        self._hearing = hearing or Coverage()
        self._watches: dict[str, Watch] = {}
        self._hosts: Counter[Hashable] = Counter()
        self._concern = Fanout()
        self._others = others
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
            raise kept(attempt.refusal)
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
        watch.concern(holder.exchange.caller.conversation)
        watch.until = inf
        self._need(watch)
        return watch

    def _need(self, watch: Watch) -> None:
        """Have it asked for, unless the upstream knows of it."""
        if watch.stand is Stand.ENDING and watch.attempt.over.is_set():
            watch.attempt = Attempt()
        elif watch.stand is Stand.REFUSED:
            watch.want()
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

    async def observe(self, uri: str, reader: int = SEVERAL) -> bool:
        """Observe `uri`, which the conversation `reader` reads; whether the upstream has agreed to that. Deadlines are
        the caller's.

        If it does not agree, then or after the session was renewed, it is observed no more.

        Cancellation: it is observed all the same, when the upstream agrees; `neglect` ends that.
        """
        if self._over or len(uri) > MAX_URI_CHARS:
            return False
        watch = self._watches.get(uri)
        if watch is None:
            watch = self._watches[uri] = Watch(uri)
        watch.concern(reader)
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
        return watch is not None and watch.observed and watch.stand is Stand.LIVE and self._hearing.is_on

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
        self._concern.let_go(uri, now)
        self.ring()

    def heard_again(self) -> None:
        """The upstream was not heard for a while: tell the onlooker what it may go by again."""
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
        alone = len(self._hosts) == 1 and not self._others(next(iter(self._hosts)))
        for holder in self._concern.whose(uri, self._watches, alone=alone, now=trio.current_time()):
            holder.updated(self.upstream, uri)

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
                watch.want()

    def whose(self) -> int:
        """The one conversation whose business all of it is; `SEVERAL`: there is none."""
        conversations = {watch.whose for watch in self._watches.values()}
        return (conversations.pop() if len(conversations) == 1 else None) or SEVERAL

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
        watch.attempt.end()
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
        watch.attempt.end(refusal)
        if not watch.holders:
            self.forget(watch)
        elif watch.is_known:
            watch.again_at = trio.current_time() + RETRY_S
            self.ring()

    def forget(self, watch: Watch) -> None:
        """The watch is over."""
        if self._watches.get(watch.uri) is watch:
            del self._watches[watch.uri]
        watch.fail(self._lost())

    def ended(self, watch: Watch) -> None:
        """The upstream knows of it no longer."""
        if watch.is_wanted:  # somebody came back while it ended
            watch.want()
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
                watch.want()
        self.ring()

    def end(self) -> None:
        """The session is over: nothing is watched here, and never will be."""
        self._over = True
        for watch in self._watches.values():
            watch.fail(self._lost())
        self._watches.clear()
        self._hosts.clear()

    def _lost(self) -> HubError:
        return UpstreamLost(f"{self.upstream} ended before it took a subscription", upstream=self.upstream)
