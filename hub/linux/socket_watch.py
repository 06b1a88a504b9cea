"""Socket watch: calls the owners of sockets when bytes have come or the peer has hung up, so that they need no tasks.

One set of all sockets is watched. To wait for one costs no system call, and no task is woken for it. Each event is told
once, and to the owner that had the socket when it was told of: a socket is removed before it is closed.
"""

import logging
import select
from collections.abc import Callable
from typing import Final

import trio
from trio.lowlevel import wait_readable

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

    def add(self, descriptor: int, on_event: OnEvent) -> None:
        """Tell `on_event` of hang-ups and of bytes, until `remove`. A descriptor that is watched gets another owner."""
        if descriptor not in self._owners:
            self._epoll.register(descriptor, _BYTES)
        self._owners[descriptor] = on_event

    def remove(self, descriptor: int) -> None:
        """Watch it no more: to be called before it is closed. Harmless when called again."""
        if self._owners.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def heed(self, descriptor: int, *, bytes: bool) -> None:
        """Tell of bytes, or only of hang-ups, from now on; what is there already is told anew."""
        self._epoll.modify(descriptor, _BYTES if bytes else _HANGUPS)

    async def run(self) -> None:
        """Tell owners of events until cancelled. An error of one is logged, and stops no other."""
        try:
            while True:
                await wait_readable(self._epoll.fileno())
                for descriptor, event in self._epoll.poll(0, TURN):
                    on_event = self._owners.get(descriptor)
                    if on_event is None:  # it was removed a moment ago
                        continue
                    try:
                        on_event(event != select.EPOLLIN)
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
