"""The way to the next hub: one that lives, or a daemon that is started; and whether a silent hub hangs, which is found
out by a connection of its own. Part of the shim: imports next to nothing.

A hub that hangs may go on: its process was stopped, its machine swaps. So the conversation is not given up, and no
request is answered in its place: what the hub has received it carries out once it goes on, and a host that was told of
a failure would send it again. What is the matter is said on standard error, which hosts log. Once such a hub is ended
the shim goes on with the next one, as after a crash.
"""

import _socket
from time import monotonic  # noqa: TID251 - nothing here runs under trio

from hub.shim.start_daemon import DaemonStart, Unavailable, connect, connect_if_alive, lock_owner
from hub.wire.vocabulary import CONTROL_PROBE

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
        """A connection to a hub; None: there is none yet, or it is not time to look. Raises Unavailable: the daemon did
        not start, does not listen in time, or another user does; OSError: a file of the hub is something else."""
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


QUIET_S, ANSWER_S = 1.5, 2.5
"""Silence after which a hub is asked, while the host waits for it; and the time that it has to answer."""
AGAIN_S = 30.0
"""Pause after an answer: the host waits for a server."""
MAX_SAID = 20
"""Most times that it is said: a host that does not read what is said must not stop the shim."""
NEVER = float("inf")


class HangWatch:
    """Watches the hub with sockets in `directory`, without ever waiting: call `step` when `due` has come, when `probe`
    is readable, and whenever something has changed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.probe: _socket.socket | None = None
        """The connection over which the hub is asked now."""
        self.due = NEVER
        self._has_heard = self._hangs = False
        self._left = MAX_SAID

    def heard(self) -> None:
        """The hub has said something, or is gone."""
        self._has_heard = True

    def step(self, *, waits: bool) -> str:
        """Go on; a sentence if it turns out that the hub hangs, or does no more. `waits`: the host waits for it."""
        now = monotonic()
        if self._has_heard or self._is_answered():
            self.due = now + (QUIET_S if self._has_heard else AGAIN_S) if waits else NEVER
            self._has_heard = False
            return self._end_message()
        if not waits:
            self._close()
            self.due = NEVER
        elif self.due == NEVER and self.probe is None:
            self.due = now + QUIET_S
        elif now >= self.due and self.probe is not None:
            self.due = NEVER
            return self._begin_message()
        elif now >= self.due:
            self.due = now + (ANSWER_S if self._ask() else AGAIN_S)
        return ""

    def _ask(self) -> bool:
        """Ask the hub; False: nobody can be asked."""
        try:
            self.probe = connect(f"{self._directory}/control.sock")
            if self.probe is not None:
                self.probe.send(CONTROL_PROBE, _socket.MSG_DONTWAIT)
        except (OSError, Unavailable):  # or too many ask already: another one says so
            self._close()
        return self.probe is not None

    def _is_answered(self) -> bool:
        if self.probe is None:
            return False
        try:
            self.probe.recv(1, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:  # it is gone
            pass
        return True

    def _begin_message(self) -> str:
        self._hangs = True
        self._left -= 1
        pid = lock_owner(self._directory).decode(errors="replace").strip()
        text = f"the hub (process {pid}) hangs: it does not answer. What was sent to it waits, and may still be carried"
        return f"{text} out; `hubd stop --force` ends it, and the next hub goes on" if self._left >= 0 else ""

    def _end_message(self) -> str:
        self._close()
        said, self._hangs = self._hangs and self._left >= 0, False
        return "the hub goes on" if said else ""

    def _close(self) -> None:
        if self.probe is not None:
            self.probe.close()
            self.probe = None
