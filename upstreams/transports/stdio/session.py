"""A session with a child process over its standard input and output.

    spawn -> shake hands -> serve -> it exits, closes a pipe, breaks the protocol, or `run` is cancelled -> stop

Both the exit and the end of stdout are watched: a grandchild that inherited stdout keeps it open. After either,
what was already written is read for a moment, then calls fail, then the process and its group are ended.
"""

import os
from collections.abc import Callable
from typing import Final

import trio

from hub.link.hub_errors import HubError, UpstreamLost, UpstreamProtocolError, without_frames
from hub.link.line_channel import LineChannel, LineReader
from hub.link.memory_budget import Account
from hub.link.outbox import Outbox
from hub.wire.capabilities import ServerFacts
from hub.wire.mcp import Era, era_of
from upstreams.cold_start.mend_npx_cache import BrokenNpxCache, find_breakage
from upstreams.cold_start.recognise_runner import is_failure_of_npm, recognise
from upstreams.cold_start.start_timeouts import Patience
from upstreams.session_contract import Exit, Session, SessionSetup
from upstreams.status_facts import SandboxFacts
from upstreams.transports.probing_session import EndedInHandshake, ProbingSession
from upstreams.transports.stdio.process import Child, child_environment, signal_name
from upstreams.transports.stdio.sandbox.enclose import Sandboxes
from upstreams.transports.stdio.sandbox.refusals import QUICK_S, Refusal, find_refusal
from upstreams.transports.stdio.stderr import STDERR_LINES

EXIT_LINES: Final = 4
"""Lines of stderr that are shown with how the process ended."""
EXIT_DELAY_S: Final = 1.0
"""Time limit for an exit to show after stdout was closed: a busy machine, or a sandbox around it, takes its time."""


class StdioSession(ProbingSession):
    """One child process. Satisfies `upstreams.session_contract.Session`."""

    transport = "stdio"

    def __init__(self, given: SessionSetup, sandboxes: Sandboxes | None = None) -> None:
        super().__init__(given)
        self._sandboxes = sandboxes or Sandboxes()
        self._package_run = recognise(given.config.command, given.config.args)

    async def _run_once(self, expected: Era | None, started: Callable[[Session], None]) -> None:
        env = child_environment(self._config, self._environ)
        self._enclosure = await self._sandboxes.enclose(self._config, self.name, env)
        self.events.sandboxed(SandboxFacts(self._enclosure.preset, self._enclosure.why))
        child = Child(self._config, self.name, self._environ, self._said, self.terms.mask, self._enclosure)
        began = trio.current_time()
        at_work = None if self._package_run is None else self.events.at_work
        self._patience = Patience(self._config.timeouts.start, at_work)
        self.pid = child.pid
        account = self._budget.account(f"upstream {self.name}")
        refused: HubError | None = None
        exited = False
        try:
            with trio.CancelScope() as self._scope:
                async with trio.open_nursery() as nursery:
                    self._connect(child, nursery, account)
                    if (refused := await self._shake_hands(self._patience.scope, expected, started)) is None:
                        await self._watch_silence(self._ping)
                    self._scope.cancel()
            exited = child.gone.is_set()
        finally:
            by_itself = child.gone.is_set()
            account.close()
            await child.stop()
            self.pid = None
            self._tell_exit(child, by_itself)
            if by_itself:
                self._blame_sandbox(child, trio.current_time() - began)
        raise self._broken_install(child) or self._reason(child, refused, exited)

    def _connect(self, child: Child, nursery: trio.Nursery, account: Account) -> None:
        broken = trio.Event()
        outbox = Outbox(child.stdin, nursery, broken.set, joins=True, account=account)
        self._attach(LineChannel(LineReader(child.stdout, account=account), outbox), outbox)
        nursery.start_soon(child.drain_stderr)
        nursery.start_soon(child.watch)
        nursery.start_soon(self._read, child)
        nursery.start_soon(self._last_read, child.gone)
        nursery.start_soon(self._last_read, broken)
        nursery.start_soon(self._patience.watch, child.pid)

    def _said(self, line: str, pid: int) -> bool:
        self._patience.note_work()
        return self.events.said(line, pid)

    def _describe_delay(self) -> str:
        text = f"within {self._patience.given_s:g} seconds"
        if self.peer.bad_messages and not self.peer.messages:
            text += "; what it writes to its standard output is not MCP, see `hubd logs`: is it a server?"
        return text

    def _agreed(self, facts: ServerFacts) -> None:
        self._patience.end()
        super()._agreed(facts)

    def _is_era_certain(self, facts: ServerFacts, expected: Era | None) -> bool:
        asked_early = expected is None and self._package_run and self._patience.spent_s > self._config.timeouts.probe
        return not asked_early or era_of(facts.version) is Era.MODERN

    async def _read(self, child: Child) -> None:
        await self._listen()
        with trio.move_on_after(EXIT_DELAY_S):
            await child.gone.wait()
        self._scope.cancel()

    def _tell_exit(self, child: Child, by_itself: bool) -> None:
        if (code := child.exit_code) is None:
            return
        killed = signal_name(-code) if code < 0 else None
        said = tuple(child.said.tail(EXIT_LINES).splitlines())
        how = child.ending() if by_itself else f"stopped: {child.ending()}"
        self.events.exited(Exit(child.pid, how, code if code >= 0 else None, killed, by_itself, said))

    def _blame_sandbox(self, child: Child, lived_s: float) -> None:
        """Say that its sandbox may be why a process ended, if it may."""
        preset = self._enclosure.preset
        refusal = find_refusal(child.said.tail(STDERR_LINES), self._hides)
        if preset != "off" and (refusal is not None or lived_s < QUICK_S):
            path, wants = refusal or Refusal("")
            self.events.sandboxed(SandboxFacts(preset, blamed=True, path=path, wants=wants))

    def _hides(self, path: str) -> bool:
        return os.path.lexists(path) and self._enclosure.hides(os.path.realpath(path))

    def _broken_install(self, child: Child) -> BrokenNpxCache | None:
        """The error of a server that could not start because its folder in the cache of npx is broken; None: it did."""
        if self._package_run is None or not self._package_run.npx_folder or self.facts.version:
            return None
        outside = self._enclosure.outside
        env = {name: outside(value) for name, value in child_environment(self._config, self._environ).items()}
        found = find_breakage(outside(child.said.raw_tail()), self._package_run.npx_folder, env)
        return None if found is None else BrokenNpxCache(self.name, *found)

    def _reason(self, child: Child, refused: HubError | None, exited: bool) -> HubError:
        """The reason why the session is over, with the last words of the process as a note, which is for status
        only."""
        name, opened = self.name, bool(self.facts.version)
        error: HubError
        if refused is not None:
            error = without_frames(refused)
        elif self._fault:
            error = UpstreamProtocolError(f"{name} {self._fault} and was stopped", upstream=name)
        else:
            how = child.ending() if exited else "closed its input or output, or stopped reading, and was stopped"
            if opened:
                error = UpstreamLost(f"{name} {how}", upstream=name)
            else:
                error = died = EndedInHandshake(f"{name} {how} before it could be used", upstream=name)
                died.of_the_probe = not (self._package_run and is_failure_of_npm(child.said.raw_tail()))
        if said := child.said.tail():
            error.add_note(said)
        return error
