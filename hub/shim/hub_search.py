"""The way to the next hub: one that lives, or a daemon that is started. Part of the shim: imports next to nothing."""

import _socket
from time import monotonic  # noqa: TID251 - nothing here runs under trio

from hub.shim.start_daemon import DaemonStart, connect_if_alive, lock_owner

MAX_LOSSES = 5
"""Connections that may be lost in a minute without an answer of the hub; then the shim gives up."""
LOSSES_WITHIN_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0


class HubSearch:
    """Looks for a hub, without ever waiting: call `look` when `pause_s` is over, or when `child` is readable."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._attempt: DaemonStart | None = None
        self._look_at = self._pause_s = 0.0
        self._losses: list[float] = []
        self._leaving = b""
        """The daemon that has said goodbye; the shim does not go back to it."""

    @property
    def starts_hub(self) -> bool:
        """True if a daemon is started where there is none."""
        return self._attempt is not None

    @property
    def child(self) -> _socket.socket | None:
        """A socket that ends with the daemon that was started."""
        return None if self._attempt is None else self._attempt.child

    @property
    def pause_s(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._look_at - monotonic())

    def start_hub(self, pause_s: float = 0.0) -> None:
        """Look for a hub, and start one if there is none, until one answers or the attempt gives up."""
        self._attempt = DaemonStart(self._directory)
        self._look_at = monotonic() + pause_s

    def start_hub_again(self) -> None:
        """The same after a loss, and the later the more there were."""
        again = len(self._losses) - 1
        self.start_hub(min(FIRST_PAUSE_S * 2**again, LONGEST_PAUSE_S) if again > 0 else 0.0)

    def await_hub(self) -> None:
        """Look for a hub, but start none."""
        self.remember_leaving()
        self._pause_s = FIRST_PAUSE_S
        self._look_at = monotonic() + self._pause_s

    def remember_leaving(self) -> None:
        """The present hub has said goodbye: it is not connected to again."""
        self._leaving = self._leaving or lock_owner(self._directory)

    def look(self) -> _socket.socket | None:
        """A connection to a hub; None: there is none yet, or it is not time to look.

        Raises:
            Unavailable: the daemon did not start, does not listen in time, or another user does.
            OSError: a file of the hub is something else.
        """
        attempt = self._attempt
        if monotonic() < self._look_at and self.child is None:
            return None
        if attempt is None:
            hub = connect_if_alive(self._directory, self._leaving)
            self._pause_s = min(self._pause_s * 1.6, LONGEST_PAUSE_S)
            self._look_at = monotonic() + self._pause_s
        else:
            hub = attempt.step()
            self._look_at = monotonic() + attempt.pause_s
        if hub is not None:
            self._leaving = b""
            if attempt is not None:
                attempt.close()
                self._attempt = None
        return hub

    def count_loss(self, *, served: bool, announced: bool) -> bool:
        """Count a lost connection, unless the hub has `served` or `announced` it; False: there were too many."""
        now = monotonic()
        self._losses = [] if served else [at for at in self._losses if at > now - LOSSES_WITHIN_S]
        if not announced:
            self._losses.append(now)
        return len(self._losses) <= MAX_LOSSES
