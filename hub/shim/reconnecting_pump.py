"""Bytes between a host's standard streams and the hub, whichever daemon is the hub at the time. Part of the shim.

    seeking ------------> connected ---lost---> seeking      after a crash: a daemon is started, if none is alive
       ^                      |
       |                      `---lost after goodbye---> waiting     it was stopped on purpose, so it stays so until
       `----the host says something, or a daemon is there----'       the host needs it, or somebody starts it

What always holds: the host is read only while the hub can take its bytes, so that nothing piles up here and nothing is
lost; at most one chunk and one line wait in each direction. `hub.shim.replay` says what a new hub gets before the
host's own lines go on.
"""

import _socket
import os
import select
from time import monotonic  # noqa: TID251 - nothing here runs under trio

from hub.shim.hub_liveness import MAX_LOSSES, NEVER, HangWatch, HubSearch
from hub.shim.line_buffers import CHUNK_BYTES, LARGE_CHUNK_BYTES, Outlet, ToHost, ToHub, say
from hub.shim.replay import Replay
from hub.shim.start_daemon import Unavailable, log_path
from hub.wire.vocabulary import UNDERSTOOD

GRACE_S = 15.0
"""Time limit of a silent hub after the host has ended its input: longer than the hub waits
itself (`hub.downstream.lines.connection.EOF_GRACE_S`)."""
AGAIN_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
"""Pauses before a new hub is asked again for subscriptions that it refused."""


class Pump:
    """Copies both ways until the host has finished, or there is no hub to be had.

    When the host ends its input, the hub's is ended too; its last lines are passed on, until it ends the connection or
    is silent for `GRACE_S`. `why` says at the end what went wrong, if anything did."""

    def __init__(self, directory: str, preamble: bytes, stdin: int = 0, stdout: int = 1) -> None:
        self.why = ""
        self._search = HubSearch(directory)
        self._hang = HangWatch(directory)
        self._preamble = preamble
        self._replay = Replay()
        self._to_hub = ToHub(self._replay)
        self._to_host = ToHost(self._replay)
        self._stdin = stdin
        self._outlet = Outlet(stdout)
        self._stdout = self._outlet.descriptor
        self._down: list[bytes | memoryview] = []
        self._unsent = b""
        """Lines of the host that no hub has received."""
        self._hub: _socket.socket | None = None
        self._hub_listens = self._parted = self._host_ended = self._had_hub = False
        self._again_at = self._leave_at = NEVER
        self._pauses = iter(AGAIN_S)
        self._code: int | None = None
        self._up_bytes = self._down_bytes = CHUNK_BYTES
        self._poll = select.poll()
        self._watched: dict[int, int] = {}

    def run(self) -> int:
        """Pump; the exit code."""
        self._search.start_hub()
        while self._code is None or self._down:
            hub = -1 if self._hub is None else self._hub.fileno()
            found = self._poll.poll(self._watch(hub))
            for descriptor, events in found:
                if descriptor == hub:
                    if events & select.POLLOUT and self._to_hub:
                        self._send()
                    elif not self._down:
                        self._from_hub()
                elif descriptor == self._stdin:
                    self._from_host()
                elif descriptor == self._stdout:
                    self._on_stdout(events)
                if self._code is not None or self._hub is None:
                    break
            if self._replay.refused:
                self._subscribe_again()
            if self._code is None:
                self._look_for_hang()
                if self._hub is None:
                    self._look()
                elif not self._down and monotonic() >= self._leave_at:
                    self._end(os.EX_OK, silent=True)
        return self._code

    # --- what to wait for

    def _watch(self, hub: int) -> float | None:
        """Poll for events that can be acted upon, and no others: an ignored hang-up would spin. The time limit of the
        poll in milliseconds."""
        over = self._code is not None
        if hub >= 0:
            events = select.POLLOUT if self._to_hub and self._hub_listens else 0
            self._want(hub, 0 if over else events if self._down else events | select.POLLIN)
        self._want(self._stdin, select.POLLIN if not over and self._hears_host() else 0)
        self._want(self._stdout, select.POLLOUT if self._down else select.POLLERR)  # an error: the host is gone
        if (probe := self._hang.probe) is not None:
            self._want(probe.fileno(), 0 if over else select.POLLIN)
        if over:
            return None
        if hub >= 0:
            until = min(self._again_at if self._replay.refused else NEVER, NEVER if self._down else self._leave_at)
            until = min(until, self._hang.due)
            return None if until == NEVER else max(0.0, until - monotonic()) * 1000
        if self._search.child is not None:
            self._want(self._search.child.fileno(), select.POLLIN)
        return self._search.pause_s * 1000

    def _want(self, descriptor: int, events: int) -> None:
        if not events:
            self._ignore(descriptor)
        elif self._watched.get(descriptor) != events:
            self._poll.register(descriptor, events)
            self._watched[descriptor] = events

    def _ignore(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _hears_host(self) -> bool:
        """True if the host is to be read. Without a hub one chunk is read, which shows whether the host has left."""
        if self._host_ended or self._unsent:
            return False
        if self._hub is None or not self._replay.greeted:
            return self._had_hub
        if self._replay.stopping and not (self._to_hub.within_line or self._replay.questions):
            return False  # its lines are for the next hub; while this one's questions are open, it gets the answers
        return self._hub_listens and not self._to_hub

    # --- between host and hub

    def _from_host(self) -> None:
        try:
            data = os.read(self._stdin, self._up_bytes)
        except BlockingIOError:
            return
        except OSError:  # a terminal that was hung up
            data = b""
        if not data:
            self._host_ended = True
            self._end_input()
            return
        self._up_bytes = CHUNK_BYTES if len(data) < CHUNK_BYTES else LARGE_CHUNK_BYTES
        if self._hub is None or not self._replay.greeted:
            self._unsent = data
            if self._hub is None and not self._search.starts_hub:
                self._search.start_hub()
        else:
            self._to_hub.put(data)
            self._send()

    def _send(self) -> None:
        assert self._hub is not None
        try:
            while self._to_hub:
                self._to_hub.send(self._hub)
        except BlockingIOError:
            return
        except OSError:  # it takes no more; its earlier bytes are still read
            self._hub_listens = False
            return
        if self._replay.unsubscribed or self._replay.stopping:
            self._put_in()

    def _put_in(self) -> None:
        """Send the shim's own lines, if there are any and the host's last line is complete."""
        replay = self._replay
        if self._to_hub.within_line or not replay.greeted:
            return
        if lines := replay.due():
            self._to_hub.put(lines, own=len(lines))
        elif replay.stopping and not (self._parted or replay.questions):
            self._parted = True
            line = UNDERSTOOD + b"\n"  # the hub gets no more requests, can answer the others, and go
            self._to_hub.put(line, own=len(line))
        else:
            return
        self._send()

    def _subscribe_again(self) -> None:
        """Ask again for refused subscriptions, if it is time; give up after a while."""
        if self._again_at == NEVER:
            if (pause_s := next(self._pauses, None)) is None:
                self._replay.refused.clear()
            else:
                self._again_at = monotonic() + pause_s
        elif monotonic() >= self._again_at:
            self._again_at = NEVER
            self._replay.retry()
            self._put_in()

    def _end_input(self) -> None:
        if self._hub is None or not self._replay.greeted:
            self._end(os.EX_OK)
            return
        self._leave_at = monotonic() + GRACE_S
        try:
            self._hub.shutdown(_socket.SHUT_WR)
        except OSError:
            self._hub_listens = False

    def _from_hub(self) -> None:
        assert self._hub is not None
        try:
            data = self._hub.recv(self._down_bytes, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self._hang.heard()
        self._down_bytes = CHUNK_BYTES if len(data) < CHUNK_BYTES else LARGE_CHUNK_BYTES
        if self._host_ended:
            self._leave_at = monotonic() + GRACE_S
        greeted = self._replay.greeted
        self._down.extend(self._to_host.pass_on(data))
        if self._outlet.never_waits and self._down:
            self._write()
        if not greeted and self._replay.greeted:
            self._resume()
        elif self._replay.unsubscribed or self._replay.stopping:
            if self._replay.stopping:
                self._search.remember_leaving()
            self._put_in()

    def _on_stdout(self, events: int) -> None:
        if self._down and events & select.POLLOUT:
            self._write()
        else:
            self._abandon()  # nobody reads: the host is gone

    def _write(self) -> None:
        down = self._down
        try:
            while down:
                written = self._outlet.write(down[0])
                if written == len(down[0]):
                    del down[0]
                else:
                    down[0] = memoryview(down[0])[written:]
                if not self._outlet.never_waits:
                    return
        except BlockingIOError:
            return
        except OSError:
            self._abandon()

    def _look_for_hang(self) -> None:
        """Say it if the hub hangs while the host waits for it."""
        if self._hang.probe is not None:
            self._ignore(self._hang.probe.fileno())
        if words := self._hang.step(waits=self._hub is not None and self._replay.waits):
            say(words)

    # --- from one hub to the next

    def _look(self) -> None:
        """Look for a hub once more, if it is time."""
        if self._search.child is not None:
            self._ignore(self._search.child.fileno())
        try:
            hub = self._search.look()
        except Unavailable as error:
            self._end(error.code, str(error))
        except OSError as error:
            self._end(os.EX_UNAVAILABLE, str(error))
        else:
            if hub is not None:
                self._connected(hub)

    def _connected(self, hub: _socket.socket) -> None:
        self._hub = hub
        self._hub_listens, self._parted = True, False
        first = self._preamble + self._replay.greeting()
        self._to_hub.put(first, own=len(first))
        if self._replay.greeted:
            self._resume(first)
        else:
            self._send()

    def _resume(self, first: bytes = b"") -> None:
        """Replay the conversation to the new hub; then the host's lines go on."""
        if self._replay.refusal:
            self._end(os.EX_UNAVAILABLE, f"the new hub refused this host: {self._replay.refusal}")
            return
        first += self._replay.rest()
        self._to_hub.put(first + self._unsent, own=len(first))
        self._unsent = b""
        self._send()

    def _lost(self) -> None:
        assert self._hub is not None
        self._ignore(self._hub.fileno())
        self._hub.close()
        self._hang.heard()
        self._hub, self._had_hub = None, True
        replay, broken = self._replay, self._to_hub.broken
        self._unsent = self._to_hub.take_unreceived() + self._unsent
        self._say(self._to_host.end_of_line() + (b"" if replay.refused_host else replay.on_loss()))
        too_often = not self._search.count_loss(served=replay.served, announced=replay.stopping)
        if replay.refused_host:
            self._end(os.EX_UNAVAILABLE, f"the hub refused this host: {replay.refusal}")
        elif self._host_ended:
            self._end(os.EX_OK)
        elif broken:
            self._end(os.EX_UNAVAILABLE, f"the hub closed the connection; its log is {log_path()}")
        elif too_often:
            self._end(os.EX_TEMPFAIL, f"the hub went away {MAX_LOSSES + 1} times in a minute; its log is {log_path()}")
        elif replay.stopping and not self._unsent:
            self._search.await_hub()
        else:
            self._search.start_hub_again()

    # --- the end

    def _end(self, code: int, why: str = "", *, silent: bool = False) -> None:
        """Leave as soon as the host has received everything. `silent`: the hub does not answer."""
        self._say(self._replay.give_up(self._unsent, silent=silent))
        self._code, self.why = code, why

    def _abandon(self) -> None:
        """Leave at once: the host is gone."""
        self._down.clear()
        self._code = os.EX_OK

    def _say(self, more: bytes) -> None:
        if more:
            self._down.append(more)
