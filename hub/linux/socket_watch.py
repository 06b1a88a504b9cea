"""Socket watch: calls the owners of sockets when bytes have come or the peer has hung up, so that they need no tasks.

One set of all sockets is watched. To wait for one costs no system call, and no task is woken for it. Each event is told
once, and to the owner that has the socket then: a socket is removed before it is closed.

Sockets belong to senders, which take turns: one that has many sockets does not keep another waiting. As long as several
have something to tell, few events of each are told in one step of the loop.
"""

import logging
import select
from collections.abc import Callable, Hashable
from itertools import chain, islice
from typing import Final

import trio
from trio.lowlevel import checkpoint, wait_readable

log = logging.getLogger(__name__)

_HANGUPS: Final = select.EPOLLRDHUP | select.EPOLLET
_BYTES: Final = _HANGUPS | select.EPOLLIN
TURN: Final = 64
"""Events that are told in one step of the loop; all other tasks have their turn then."""
SHARED_TURN: Final = 8
"""Events of one sender that are told in one step while there are several."""
SHARED_FOR: Final = 100
"""Steps for which a sender counts as one that has something to tell."""
MAX_EVENTS: Final = 1_024
"""Events that are taken from the kernel at once."""

OnEvent = Callable[[bool], None]
"""Takes an event: True: the peer has hung up, and may have sent something before; False: it has only sent something.

It may come in vain. Whoever leaves something unread on purpose asks for another event by `SocketWatch.heed`.
"""


class SocketWatch:
    """The sockets of one event loop. `run` must be running."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._owners: dict[int, OnEvent] = {}
        self._senders: dict[int, Hashable] = {}
        """By descriptor, where it is known who sends."""
        self._untold: dict[int, int] = {}
        """Events, by descriptor."""
        self._last: Hashable = None
        self._shared_for = 0
        """One of the senders that last took turns, or None; the steps for which there still count as several."""

    def add(self, descriptor: int, on_event: OnEvent) -> None:
        """Tell `on_event` of hang-ups and of bytes, until `remove`. A descriptor that is watched gets another owner."""
        if descriptor not in self._owners:
            self._epoll.register(descriptor, _BYTES)
        self._owners[descriptor] = on_event

    def remove(self, descriptor: int) -> None:
        """Watch it no more: to be called before it is closed. Harmless when called again."""
        if self._owners.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            self._senders.pop(descriptor, None)
            self._untold.pop(descriptor, None)

    def belongs(self, descriptor: int, sender: Hashable) -> None:
        """From now on what comes over a socket counts as sent by `sender`."""
        self._senders[descriptor] = sender

    def heed(self, descriptor: int, *, bytes: bool) -> None:
        """Tell of bytes, or only of hang-ups, from now on; what is there already is told anew."""
        self._epoll.modify(descriptor, _BYTES if bytes else _HANGUPS)

    async def run(self) -> None:
        """Tell owners of events until cancelled. An error of one is logged, and stops no other."""
        try:
            while True:
                if self._untold:
                    await checkpoint()
                else:
                    await wait_readable(self._epoll.fileno())
                for descriptor, event in self._epoll.poll(0, MAX_EVENTS):
                    self._untold[descriptor] = self._untold.get(descriptor, 0) | event
                for descriptor in self._choose():
                    event, on_event = self._untold.pop(descriptor, 0), self._owners.get(descriptor)
                    if not event or on_event is None:  # it was removed a moment ago
                        continue
                    try:
                        on_event(event != select.EPOLLIN)
                    except Exception:
                        log.exception("an event of a socket could not be taken")
        finally:
            self._owners.clear()
            self._epoll.close()

    def _choose(self) -> list[int]:
        """The sockets whose events are told in this step."""
        senders = set(map(self._senders.get, self._untold))
        if senders <= {self._last}:
            self._shared_for = max(0, self._shared_for - 1)
        else:
            self._last, self._shared_for = senders.pop(), SHARED_FOR
        if not self._shared_for:
            return [*islice(self._untold, TURN)]
        by_sender: dict[Hashable, list[int]] = {}
        for descriptor in self._untold:
            its = by_sender.setdefault(self._senders.get(descriptor), [])
            if len(its) < SHARED_TURN:
                its.append(descriptor)
        return [*islice(chain(*by_sender.values()), TURN)]  # whose event is the oldest comes first


_WATCH: Final = trio.lowlevel.RunVar[SocketWatch]("socket watch")


def socket_watch() -> SocketWatch:
    """The watch of this event loop, which lives as long as it does."""
    try:
        return _WATCH.get()
    except LookupError:
        watch = SocketWatch()
        _WATCH.set(watch)
        trio.lowlevel.spawn_system_task(watch.run)
        return watch
