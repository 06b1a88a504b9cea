"""Socket watch: calls the owners of sockets when bytes have come or the peer has hung up, so that they need no tasks.

One set of all sockets is watched. To wait for one costs no system call, and no task is woken for it. Each event is told
once, and to the owner that has the socket then: a socket is removed before it is closed.

Sockets belong to senders, which take turns: one that has many sockets does not keep another waiting. While several are
busy, few events of each are told in one step of the loop. Strangers, whose sockets have no sender yet, are one sender
together; so is a host that connects anew for each request. All upstreams are one, which has a larger turn: what they
send somebody has asked for.
"""

import logging
import select
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final

import trio
from trio.lowlevel import checkpoint, wait_readable

log = logging.getLogger(__name__)

_HANGUPS: Final = select.EPOLLRDHUP | select.EPOLLET
_BYTES: Final = _HANGUPS | select.EPOLLIN
TURN: Final = 64
"""Events of hosts, and as many of upstreams, that are told in one step of the loop; all other tasks have their turn
then."""
SHARED_TURN: Final = 2
"""Events of one sender that are told in one step while several are busy; fewer, if these are many."""
STRANGERS_TURN: Final = 8
"""Events of strangers that are told in one step while there is somebody else."""
SHARED_ANSWERS: Final = 16
"""Events of upstreams that are told in one step while several senders are busy."""
SHARED_FOR: Final = 100
"""Steps for which several senders count as busy once another one than the last had an event."""
MAX_EVENTS: Final = 1_024
"""Events that are taken from the kernel at once."""

ANSWERS: Final = "answers"
"""The sender of sockets to upstreams."""

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
        self._untold: dict[Hashable, dict[int, int]] = {}
        """Events by descriptor, by sender; None: by strangers."""
        self._last: Hashable = None
        """A sender of the last step that had any."""
        self._shared_for = 0
        """Steps for which several senders still count as busy."""

    def add(self, descriptor: int, on_event: OnEvent, sender: Hashable = None) -> None:
        """Tell `on_event` of hang-ups and of bytes, until `remove`. A descriptor that is watched gets another owner.
        `sender`: as of `belongs`; None: that is left as it is."""
        if descriptor not in self._owners:
            self._epoll.register(descriptor, _BYTES)
        self._owners[descriptor] = on_event
        if sender is not None:
            self.belongs(descriptor, sender)

    def remove(self, descriptor: int) -> None:
        """Watch it no more: to be called before it is closed. Harmless when called again."""
        if self._owners.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            self._take(descriptor)
            self._senders.pop(descriptor, None)

    def belongs(self, descriptor: int, sender: Hashable) -> None:
        """From now on what comes over a socket counts as sent by `sender`."""
        if self._senders.get(descriptor) != sender:
            event = self._take(descriptor)
            self._senders[descriptor] = sender
            self._put(descriptor, event)

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
                    self._put(descriptor, event)
                for descriptor in self._choose():
                    event, on_event = self._take(descriptor), self._owners.get(descriptor)
                    if not event or on_event is None:  # it was removed a moment ago
                        continue
                    try:
                        on_event(event != select.EPOLLIN)
                    except Exception:
                        log.exception("an event of a socket could not be taken")
        finally:
            self._owners.clear()
            self._epoll.close()

    def _put(self, descriptor: int, event: int) -> None:
        """Keep an event until it is told."""
        if event:
            events = self._untold.setdefault(self._senders.get(descriptor), {})
            events[descriptor] = events.get(descriptor, 0) | event

    def _take(self, descriptor: int) -> int:
        """Take the events of a socket that are not told; 0: there are none."""
        sender = self._senders.get(descriptor)
        if (events := self._untold.get(sender)) is None:
            return 0
        event = events.pop(descriptor, 0)
        if not events:
            del self._untold[sender]
        return event

    def _choose(self) -> list[int]:
        """The sockets whose events are told in this step. Who has had a turn comes last in the next one."""
        untold = self._untold
        answers, strangers = untold.pop(ANSWERS, None), untold.pop(None, None)
        busy = [*islice(untold, TURN)]
        if busy in ([], [self._last]):
            self._shared_for = max(0, self._shared_for - 1)
        else:
            self._shared_for = SHARED_FOR if len(busy) > 1 or self._last is not None else 0
            self._last = busy[0]
        most = max(1, min(SHARED_TURN, TURN // max(1, len(busy)))) if self._shared_for else TURN
        chosen: list[int] = []
        for sender in busy:
            untold[sender] = events = untold.pop(sender)
            chosen += islice(events, most)
        if answers is not None:
            untold[ANSWERS] = answers
            chosen += islice(answers, SHARED_ANSWERS if self._shared_for else TURN)
        if strangers is not None:
            untold[None] = strangers
            chosen += islice(strangers, STRANGERS_TURN if busy or self._shared_for else TURN)
        return chosen


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
