"""Hang-ups of any number of sockets, reported by one descriptor (epoll(7))."""

import select
from typing import Final

_HANGUPS: Final = select.EPOLLRDHUP | select.EPOLLET
_BYTES: Final = _HANGUPS | select.EPOLLIN


class HangupSet:
    """Sockets that are watched: hang-ups of all, incoming bytes of some. Each event is reported once."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.fileno, self.remove, self.close = self._epoll.fileno, self._epoll.unregister, self._epoll.close

    def add(self, descriptor: int) -> None:
        """Watch a socket for hang-ups and bytes."""
        self._epoll.register(descriptor, _BYTES)

    def watch(self, descriptor: int, *, bytes: bool) -> None:
        """Watch a socket that was added for this from now on; what is there already is reported anew."""
        self._epoll.modify(descriptor, _BYTES if bytes else _HANGUPS)

    def poll(self, most: int) -> list[tuple[int, bool]]:
        """The sockets with events, each with whether it was hung up, or has only bytes. Never waits."""
        return [(descriptor, bool(event & ~select.EPOLLIN)) for descriptor, event in self._epoll.poll(0, most)]
