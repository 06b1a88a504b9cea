"""A child process in a session of its own: spawned with a clean environment, always drained, stopped for certain.

    stdin closed --2 s--> TERM to the group --3 s--> KILL to the group, and to descendants that left it

Spawned by `subprocess.Popen` on the main thread, without a parent-death signal: trio's own spawning thread ends after
ten idle seconds, and such children with it. The exit is awaited on a pidfd (`hub.linux.processes`), and descendants are
known by the mark in their environment; `hub.linux.stray_processes` finds them, also those of hubs that died.
"""

import contextlib
import errno
import itertools
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import trio
from trio.lowlevel import checkpoint

from config.environment.pass_variables_by_patterns import select_passed
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from hub.link.log_context import SUBJECT, UpstreamSubject
from hub.link.rate_limits import TokenBucket
from hub.linux.child_limits import limit_child, limits_in_shell, refuse_last_descriptors, signal_followers
from hub.linux.child_marks import MARKER, THIS_HUB, mark_of
from hub.linux.processes import take_descriptors
from hub.linux.stray_processes import kill_marked, waited_for
from upstreams.redact import Mask
from upstreams.transports.stdio.sandbox.arguments import OPEN, Enclosure
from upstreams.transports.stdio.stderr import StderrLog

log = logging.getLogger(__name__)

CLOSE_GRACE_S: Final = 2.0
TERM_GRACE_S: Final = 3.0
KILL_GRACE_S: Final = 5.0
"""A process that KILL does not end within this hangs in the kernel; it is left to it."""
ABANDON_S: Final = 1.0
"""Time that the hub may stand still for the end of a process that it could not even watch."""
LAST_OUTPUT_S: Final = 0.1
UMASK: Final = 0o077

STDERR_READ_BYTES: Final = 1 << 16
"""Bytes of stderr that are read in one turn."""
STDERR_READS: Final = 100
"""In a second, and at once. Who writes more is read at a pace: a pause after each read makes the next one large."""
STDERR_PAUSE_S: Final = 0.002
"""Short enough that a full pipe is emptied as fast as any server has reason to write: 32 MiB a second."""

_KILLED: Final = 128
"""Exit status of bubblewrap, but for the number of the signal that killed what it started."""
_HOW: Final[dict[str, Any]] = {
    **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
    **{"bufsize": 0, "start_new_session": True, "umask": UMASK},
}
_numbers = itertools.count(1)
spawn = subprocess.Popen
"""The function that starts a process; tests put something else here that fails."""


class Child:
    """A running process. Its maker awaits `stop`, however the process ended."""

    def __init__(
        self,
        config: UpstreamConfig,
        name: str,
        environ: Mapping[str, str],
        hear: Callable[[str, int], object] | None = None,
        mask: Callable[[str], str] = str,
        enclosure: Enclosure = OPEN,
    ) -> None:
        """Start it in a sandbox. `hear` is called with every line of its stderr, printable and without secrets, and its
        pid; `mask` takes out those that `config` does not say. Raises UpstreamUnavailable: it cannot be started."""
        assert config.command is not None
        self.name = name
        number = next(_numbers)
        self.marker = f"{THIS_HUB}.{number}"
        mark = mark_of(number, os.environ.get(MARKER, ""))
        env = child_environment(config, environ) | {MARKER: mark}
        try:
            refuse_last_descriptors()
            if enclosure.bubblewrap or enclosure.limits:
                _refuse_missing(config, environ)  # whoever stands in front of it would fail in other words
            where = config.cwd
            argv = [*enclosure.words(limits_in_shell()), config.command, *config.args]
            self._popen = spawn(argv, **_HOW, cwd=where, env=env)
            self.pid = self._popen.pid
            waited_for.add(self.pid)
            if not enclosure.bubblewrap:
                limit_child(self.pid)
        except (OSError, ValueError) as error:
            raise UpstreamUnavailable(cannot_start(name, config, error), upstream=name) from None
        self._is_enclosed = bool(enclosure.bubblewrap)
        try:
            self._pidfd, pipes = take_descriptors(self._popen)
        except OSError as error:
            self._abandon()
            raise UpstreamUnavailable(cannot_start(name, config, error), upstream=name) from None
        self.stdin, self.stdout, self.stderr = map(trio.lowlevel.FdStream, pipes)
        own = Mask(config)
        self.said = StderrLog(name, lambda line: own(mask(line)), lambda line: hear(line, self.pid) if hear else None)
        self._reads = TokenBucket(STDERR_READS, STDERR_READS)
        self.gone = trio.Event()
        """Set by `watch` once the process has exited."""

    def _abandon(self) -> None:
        """End what was started and cannot be watched: at once, since it has had no time to do anything."""
        self._signal_group(signal.SIGKILL)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(ABANDON_S)
            waited_for.discard(self.pid)

    async def watch(self) -> None:
        """Wait for the exit. The process is not reaped by that: its pid and group stay its own."""
        if not self.gone.is_set():
            await trio.lowlevel.wait_readable(self._pidfd)
            self.gone.set()

    async def drain_stderr(self) -> None:
        """Read what it says on stderr, to the end: it never waits for long, and neither do others.

        One read a turn, and one turn for every hundred lines that are logged. Cancellation: what was read is kept.
        """
        SUBJECT.set(UpstreamSubject(self.name, self.pid))
        await self._log_said()  # what was left when the last one was cancelled
        while data := await _receive(self.stderr):
            self.said.feed(data)
            await self._log_said()
            if not self._reads.take(trio.current_time()):
                await trio.sleep(STDERR_PAUSE_S)

    async def _log_said(self) -> None:
        while self.said.log_lines(trio.current_time()):
            await checkpoint()

    @property
    def exit_code(self) -> int | None:
        """Exit status of the process; negative: killed by that signal; None while it runs."""
        code = self._popen.returncode
        is_signal = self._is_enclosed and code is not None and code > _KILLED
        return _KILLED - code if is_signal else code

    def ending(self) -> str:
        """The end of the process, as a clause; "" until it was reaped."""
        if (code := self.exit_code) is None:
            return ""
        return f"exited with status {code}" if code >= 0 else f"was killed by {signal_name(-code)}"

    async def stop(self) -> None:
        """End the process and everything it started; reap it; close its pipes. Takes at most some 10 seconds.
        Cancellation: shielded from it; each step has its deadline."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                drained = trio.Event()
                nursery.start_soon(self.watch)
                nursery.start_soon(self._drain_rest, drained)
                await self._end()
                await trio.to_thread.run_sync(kill_marked, self.marker)
                with trio.move_on_after(LAST_OUTPUT_S):
                    await drained.wait()
                nursery.cancel_scope.cancel()
            self.said.end(trio.current_time())
            for stream in (self.stdin, self.stdout, self.stderr):
                await stream.aclose()
            os.close(self._pidfd)

    async def _end(self) -> None:
        await self.stdin.aclose()
        if not await self._is_gone(CLOSE_GRACE_S):
            if self._is_enclosed:  # bubblewrap would end at once, and all of it, before the server could do anything
                signal_followers(self.pid, signal.SIGTERM)
            else:
                self._signal_group(signal.SIGTERM)
            await self._is_gone(TERM_GRACE_S)
        self._signal_group(signal.SIGKILL)  # whatever of its group is left
        if await self._is_gone(KILL_GRACE_S):
            self._popen.wait()
            waited_for.discard(self.pid)
        else:
            log.error("%s (process %d) does not end even by SIGKILL; it is left behind", self.name, self.pid)

    async def _is_gone(self, within_s: float) -> bool:
        with trio.move_on_after(within_s):
            await self.gone.wait()
        return self.gone.is_set()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _drain_rest(self, drained: trio.Event) -> None:
        """Keep both outputs flowing, so that it can finish what it has to say."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_discard, self.stdout)
            nursery.start_soon(self.drain_stderr)
        drained.set()


def _refuse_missing(config: UpstreamConfig, environ: Mapping[str, str]) -> None:
    """Raise OSError, as starting its command would, if that is not there."""
    if not is_found(config, environ):
        command = config.command or ""
        error = PermissionError if "/" in command and os.path.isfile(command) else FileNotFoundError
        raise error(command)


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 35` of those without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def child_environment(config: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of a child: what of `environ` is passed to it, and over that what its configuration declares."""
    return select_passed(environ, config.pass_) | {name: value.reveal() for name, value in config.env.items()}


def is_found(config: UpstreamConfig, environ: Mapping[str, str] = os.environ) -> bool:
    """False if the command of a server is no program where its environment looks for it: a start fails at once."""
    command = config.command or ""
    if "/" in command and not os.path.isabs(command):
        return True  # as its cwd has it
    path = child_environment(config, environ).get("PATH", os.defpath)
    return shutil.which(command, path=path) is not None


def cannot_start(name: str, config: UpstreamConfig, error: Exception) -> str:
    """The reason why a command could not be started, and what to do about it."""
    command = os.path.basename(config.command or "")
    if config.cwd is not None and not Path(config.cwd).is_dir():
        return f"{name} cannot be started: its cwd is not a directory"
    if isinstance(error, FileNotFoundError):
        why = "was not found, or its interpreter was not; "
        if os.path.isabs(config.command or ""):
            why += "install it there, or correct the path"
        else:
            why += "install it, give the full path as command, or run `hubd env capture` in a shell that finds it"
    elif isinstance(error, PermissionError):
        why = "may not be executed; make it executable, or name its interpreter as command"
    elif isinstance(error, OSError) and error.errno in _REASONS:
        why = _REASONS[error.errno]
    elif isinstance(error, OSError) and error.strerror:
        why = f"cannot be executed ({error.strerror.lower()})"
    else:
        why = "cannot be executed with these arguments"
    return f"{name} cannot be started: {command!r} {why}"


_REASONS: Final = {
    errno.ETXTBSY: "is being written; it is tried again when it is whole",
    errno.EAGAIN: "would be more processes than this user may have (ulimit -u); it is tried again",
    errno.ENOMEM: "was not executed, since there is no memory left; it is tried again",
}


async def _discard(stream: trio.abc.ReceiveStream) -> None:
    while await _receive(stream):
        pass


async def _receive(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await stream.receive_some(STDERR_READ_BYTES))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""
