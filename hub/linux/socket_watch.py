"""Socket watch: calls the owners of sockets when bytes have come or the peer has hung up, so that they need no tasks.

One set of all sockets is watched. To wait for one costs no system call, and no task is woken for it. Each event is told
once, and to the owner that had the socket when it was told of: a socket is removed before it is closed. While several
hosts are busy, the sockets of one party, which is a host or an upstream, have a `share` of each step.
"""

import logging
import select
from collections.abc import Callable
from typing import Final

import trio
from trio.lowlevel import checkpoint, wait_readable

log = logging.getLogger(__name__)

_HANGUPS: Final = select.EPOLLRDHUP | select.EPOLLET
_BYTES: Final = _HANGUPS | select.EPOLLIN
TURN: Final = 64
"""Events that are told in one step of the loop; all other tasks have their turn then."""

OnEvent = Callable[[bool], None]
"""Takes an event: True: the peer has hung up, and may have sent something before; False: it has only sent something.

It may come in vain. Whoever leaves something unread on purpose asks for another event by `SocketWatch.heed`.
"""


class SocketWatch:
    """The sockets of one event loop. `run` must be running."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._owners: dict[int, OnEvent] = {}
        self.parties: dict[int, object] = {}
        """The host or upstream of each socket, if known."""
        self.share = TURN
        """Events of one party that are told in one step."""
        self._waiting: dict[int, bool] = {}
        """Events that are to be told: sockets, each with whether it was hung up, first come first."""

    def add(self, descriptor: int, on_event: OnEvent) -> None:
        """Tell `on_event` of hang-ups and of bytes, until `remove`. A descriptor that is watched gets another owner."""
        if descriptor not in self._owners:
            self._epoll.register(descriptor, _BYTES)
        self._owners[descriptor] = on_event

    def remove(self, descriptor: int) -> None:
        """Watch it no more: to be called before it is closed. Harmless when called again."""
        if self._owners.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            self.parties.pop(descriptor, None)
            self._waiting.pop(descriptor, None)

    def heed(self, descriptor: int, *, bytes: bool) -> None:
        """Tell of bytes, or only of hang-ups, from now on; what is there already is told anew."""
        self._epoll.modify(descriptor, _BYTES if bytes else _HANGUPS)

    def divide(self, share: int) -> None:
        """Tell of so many events of one party in one step from now on."""
        self.share = share

    async def run(self) -> None:
        """Tell owners of events until cancelled. An error of one is logged, and stops no other."""
        waiting = self._waiting
        try:
            while True:
                if waiting:
                    await checkpoint()
                else:
                    await wait_readable(self._epoll.fileno())
                for descriptor, event in self._epoll.poll(0, TURN):
                    waiting[descriptor] = event != select.EPOLLIN or waiting.get(descriptor, False)
                told: dict[object, int] = {}
                for descriptor in list(waiting)[:TURN]:
                    if descriptor not in waiting:  # it was removed a moment ago
                        continue
                    hung_up = waiting.pop(descriptor)
                    if self.share < TURN:
                        party = self.parties.get(descriptor, descriptor)
                        told[party] = told.get(party, 0) + 1
                        if told[party] > self.share:
                            waiting[descriptor] = hung_up  # behind all others
                            continue
                    try:
                        self._owners[descriptor](hung_up)
                    except Exception:
                        log.exception("an event of a socket could not be taken")
        finally:
            self._owners.clear()
            self._epoll.close()


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
