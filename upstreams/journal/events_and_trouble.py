"""History of one upstream: line by line in its journal, and summed up for `hubd status`.

Texts come from servers, and from errors about them: secrets are masked and the text made printable before it is kept.
"""

import logging
import re
from collections import deque
from typing import Final

from config.settings import UpstreamConfig
from hub.wire.printable import printable
from upstreams.journal.journal import Journal
from upstreams.lifecycle import LOOP_ENDS, LOOP_WINDOW_S, State
from upstreams.redact import CommonSecrets, Mask
from upstreams.session_contract import Exit
from upstreams.status_facts import LastExit, Trouble

log = logging.getLogger(__name__)

LAST_ERROR_CHARS: Final = 4_000
MAX_ENDS: Final = 100
KEY_CHARS: Final = 200
MAX_KEYS: Final = 500
"""The limits of what is remembered of the lines of a process: so much of each, and so many of them."""
_NUMBERS: Final = re.compile(r"\d+")
TRYING: Final = frozenset({State.CONNECTING, State.CONNECTED, State.RECONNECTING})


class History:
    """Notes everything that happens to an upstream. Times are seconds of one clock; the journal has its own.

    `common`: secrets that are masked beside its own.
    """

    def __init__(
        self, config: UpstreamConfig, journal: Journal, now: float, common: CommonSecrets | None = None
    ) -> None:
        self.journal = journal
        self.mask = Mask(config, common)
        self._is_process = config.command is not None
        self.last_error: str | None = None
        self._error_at = 0.0
        self.restarts = 0
        self._since = now
        self._next_at: float | None = None
        self._last_exit: tuple[Exit, float] | None = None
        self._was_open = self._crashed = False
        """Since the last start: it was connected once; it ended by itself and has not come back."""
        self._ends: deque[float] = deque(maxlen=MAX_ENDS)
        """Times at which it ended by itself or could not be started; ends by the hub are not counted."""
        self._said_by: dict[int, set[str]] = {}
        """By pid, the lines of processes that run, without their numbers."""
        self._said_before: set[str] = set()
        """Such lines of the last process that ended by itself."""

    # --- what is told -------------------------------------------------------------------------------------------------

    def note(self, text: str, pid: int | None = None, level: str = "info") -> None:
        self.journal.add("state", printable(self.mask(text), keep="\n"), pid, level=level)

    def said(self, line: str, pid: int) -> bool:
        """Note a line of stderr, which is masked and printable already; True: the last process said it, too."""
        self.journal.add("stderr", line, pid)
        key = _NUMBERS.sub("0", line[:KEY_CHARS])
        lines = self._said_by.setdefault(pid, set())
        if len(lines) < MAX_KEYS:
            lines.add(key)
        return key in self._said_before

    def note_log(self, level: str, text: str) -> str:
        """Note a log message; its text as it may be shown."""
        text = printable(self.mask(text))
        self.journal.add("log", f"{level}: {text}" if level else text, level=level)
        return text

    def exited(self, exit: Exit, now: float) -> None:
        """Note the end of a process: of the main session, or of a session of one host."""
        self.journal.add("exit", exit.how, exit.pid, level="warning" if exit.by_itself else "info")
        lines = self._said_by.pop(exit.pid, set())
        if exit.by_itself:
            self._said_before = lines
            self._last_exit = exit, now

    # --- what is done -------------------------------------------------------------------------------------------------

    def moved(self, now: float) -> None:
        self._since = now

    def attempted(self) -> None:
        self._next_at = None
        self.note("connecting")

    def opened(self, how: str, pid: int | None) -> None:
        self.restarts += self._crashed
        self._crashed, self._was_open = False, True
        self.note(f"connected: {how}", pid)

    def failed(self, error: Exception | None, now: float) -> None:
        self._ends.append(now)
        self._crashed = self._crashed or self._was_open
        if error is not None:
            whole = "\n".join([str(error), *getattr(error, "__notes__", ())])
            self.last_error = self.mask(whole)[:LAST_ERROR_CHARS]
            self._error_at = now
            self.note(str(error), level="error")

    def pauses(self, pause_s: float, now: float) -> None:
        self._next_at = now + pause_s
        self.note(f"next attempt in {pause_s:.1f} s")

    def rests(self, idle_s: float) -> None:
        """The upstream is stopped until a call needs it."""
        self._next_at, self._was_open, self._crashed = None, False, False
        self.note(f"idle: nobody has needed it for {idle_s:g} s; the next call starts it")

    def restarted(self) -> None:
        """The upstream starts over by command; earlier trouble is forgotten."""
        self.note("restarted by command")
        self.last_error = self._last_exit = self._next_at = None
        self._said_before = set()
        self._ends.clear()
        self._was_open = self._crashed = False

    # --- for status ---------------------------------------------------------------------------------------------------

    def trouble(self, state: State, now: float) -> Trouble:
        """The trouble of the upstream, for its status."""
        ends = sum(at > now - LOOP_WINDOW_S for at in self._ends)
        last = None
        if self._last_exit is not None:
            exit, at = self._last_exit
            last = LastExit(exit.how, exit.code, exit.signal, round(now - at, 1), exit.said)
        return Trouble(
            since_s=round(now - self._since, 1),
            last_error=self.last_error,
            last_error_ago_s=None if self.last_error is None else round(now - self._error_at, 1),
            last_exit=last,
            restarts=self.restarts,
            next_attempt_s=None if self._next_at is None else round(max(0.0, self._next_at - now), 1),
            ends_lately=ends,
            crash_loop=self._is_process and state in TRYING and ends >= LOOP_ENDS,
        )
