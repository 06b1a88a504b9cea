"""Finds out whether a silent hub hangs, by a connection of its own. Part of the shim: imports next to nothing.

A hub that hangs may go on: its process was stopped, its machine swaps. So the conversation is not given up, and no
request is answered in its place: what the hub has received it carries out once it goes on, and a host that was told of
a failure would send it again. What is the matter is said on standard error, which hosts log. Once such a hub is ended
the shim goes on with the next one, as after a crash.
"""

import _socket
from time import monotonic  # noqa: TID251 - nothing here runs under trio

from hub.shim.start_daemon import Unavailable, connect, lock_owner
from hub.wire.vocabulary import CONTROL_PROBE

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
        text = (
            f"the hub (process {pid}) hangs: it does not answer. What was sent to it waits, and may still be carried "
        )
        return f"{text}out; `hubd stop --force` ends it, and the next hub goes on" if self._left >= 0 else ""

    def _end_message(self) -> str:
        self._close()
        said, self._hangs = self._hangs and self._left >= 0, False
        return "the hub goes on" if said else ""

    def _close(self) -> None:
        if self.probe is not None:
            self.probe.close()
            self.probe = None
