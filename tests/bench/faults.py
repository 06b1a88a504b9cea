"""One of two servers is stopped, or killed: what other calls, lists and hosts of a gateway see of it."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from statistics import median
from threading import Event
from time import perf_counter
from typing import Final, NamedTuple

from tests.bench.callers import Echo, Session, drive
from tests.bench.measure import close_sessions, open_sessions
from tests.bench.responses import CallFailed
from tests.bench.scene import RunningGateway, Servers

ANSWER: Final = "answered"
CALLERS: Final = 8
ROUNDS: Final = 3
PATIENCE_S: Final = 10.0
PROBE_PATIENCE_S: Final = 2.0
PROBE_S: Final = 0.05
"""The time between two calls that ask whether a killed server is back."""
DOWN_S: Final = 1.0
"""A killed server over HTTP is down for so long, as it would be under a service manager."""
RECOVERY_S: Final = 20.0


class Stopped(NamedTuple):
    """What was seen while a server was stopped (SIGSTOP) and `CALLERS` calls waited for it."""

    slower: float | None
    """The median latency of calls to the other server over that of before; None: there was none."""
    failures: int
    """Of those calls."""
    list_s: float | None
    """None: no answer in `PATIENCE_S`."""
    new_host_s: float | None
    answers: int
    """The waiting calls that succeeded once it went on."""


class Killed(NamedTuple):
    """What was seen when a server was killed (SIGKILL) while `CALLERS` calls waited for it."""

    outcomes: Counter[str]
    """The ends of these calls."""
    outcome_s: float
    """The median of the time that they took."""
    recovery_s: float | None
    """The time until a call of a host from before succeeded: since the server was there again, or, if it is the
    gateway's to start it, since it was killed. None: not in `RECOVERY_S`."""
    new_host_s: float | None
    """The same of a host that comes new."""


def stop_one(gateway: RunningGateway, servers: Servers, seconds: float) -> Stopped:
    """Stop the second server several times. Raises CallFailed, OSError."""
    others, waiting = open_sessions(gateway, 4), open_sessions(gateway, CALLERS, "up1")
    echo = Echo(gateway.tool("up0", "echo"), 1024, 0)
    slower: list[float] = []
    failures = 0
    try:
        for _ in range(ROUNDS):
            before = drive(others, echo, seconds)
            with _stopped(servers.pids("up1", gateway)):
                _call(waiting, gateway.tool("up1", "echo"))
                meanwhile = drive(others, echo, seconds)
            failures += meanwhile.failures.total()
            if before.latencies_ns and meanwhile.latencies_ns:
                slower.append(meanwhile.p50_us / before.p50_us)
            with ThreadPoolExecutor(CALLERS) as pool:
                ends = list(pool.map(_end, waiting, [0.0] * CALLERS))
        with _stopped(servers.pids("up1", gateway)):
            _call(waiting, gateway.tool("up1", "echo"))
            list_s = _took(lambda: others[0].list_tools(patience_s=PATIENCE_S))
            new_host_s = _took(lambda: _list_as_a_new_host(gateway))
    finally:
        close_sessions([*others, *waiting])
    answers = sum(outcome == ANSWER for outcome, _ in ends)
    return Stopped(median(slower) if slower else None, failures, list_s, new_host_s, answers)


@contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _call(sessions: Sequence[Session], tool: str) -> None:
    """Call in each session, and let that reach the server."""
    for session in sessions:
        session.start(session.template(Echo(tool, 8, 0).params))
    Event().wait(0.2)


def _end(session: Session, since: float) -> tuple[str, float]:
    """How the call of this session ended, and when; `ANSWER`: well."""
    try:
        session.await_result(PATIENCE_S)
        outcome = ANSWER
    except CallFailed as failure:
        outcome = str(failure)
    return outcome, perf_counter() - since


def _took(act: Callable[[], object]) -> float | None:
    """The seconds that it took; None: it failed."""
    began = perf_counter()
    try:
        act()
    except (CallFailed, OSError):
        return None
    return perf_counter() - began


def _list_as_a_new_host(gateway: RunningGateway) -> None:
    with closing(gateway.session("up0", patience_s=PATIENCE_S)) as session:
        session.list_tools(patience_s=PATIENCE_S)


def kill_one(gateway: RunningGateway, servers: Servers) -> Killed:
    """Kill the second server, and start it again where that is not the gateway's affair. Raises CallFailed, OSError."""
    waiting, before = open_sessions(gateway, CALLERS, "up1"), open_sessions(gateway, 1, "up1")
    try:
        _call(waiting, gateway.tool("up1", "wait"))
        with ThreadPoolExecutor(CALLERS + 3) as pool:
            killed = perf_counter()
            for pid in servers.pids("up1", gateway):
                os.kill(pid, signal.SIGKILL)
            ends = [pool.submit(_end, session, killed) for session in waiting]
            restart = pool.submit(_restart, servers)
            back = pool.submit(_call_until_one_succeeds, gateway, before, killed + RECOVERY_S, is_new=False)
            new = pool.submit(_call_until_one_succeeds, gateway, [], killed + RECOVERY_S, is_new=True)
    finally:
        close_sessions([*waiting, *before])
    there = restart.result() or killed
    recovery_s, new_host_s = (None if it is None else max(0.0, it - there) for it in (back.result(), new.result()))
    outcomes = [end.result() for end in ends]
    took_s = median(took_s for _, took_s in outcomes)
    return Killed(Counter(outcome for outcome, _ in outcomes), took_s, recovery_s, new_host_s)


def _restart(servers: Servers) -> float | None:
    """Start the second server again after a while, and return the time; None: its gateway does."""
    if not servers.are_ours:
        return None
    Event().wait(DOWN_S)
    servers.start("up1")
    return perf_counter()


def _call_until_one_succeeds(
    gateway: RunningGateway, sessions: list[Session], deadline: float, *, is_new: bool
) -> float | None:
    """The time at which a call succeeded. A host begins anew when its session is gone; one `is_new` at each call."""
    params = Echo(gateway.tool("up1", "echo"), 8, 0).params
    try:
        while perf_counter() < deadline:
            try:
                if not sessions:
                    sessions.append(gateway.session("up1", patience_s=PROBE_PATIENCE_S))
                sessions[0].ask("tools/call", params, patience_s=PROBE_PATIENCE_S)
                return perf_counter()
            except (CallFailed, OSError) as failure:
                if sessions and (is_new or str(failure).startswith("HTTP 4")):
                    close_sessions([sessions.pop()])
            Event().wait(PROBE_S)
        return None
    finally:
        close_sessions(sessions)
