"""Fairness: how long one caller waits while 64 callers of another session are busy, by carrier of hosts.

    .venv/bin/python -m tests.load.fairness [SECONDS]

The crowd and the one call servers of their own, so that what is measured is the hub. The one calls beside the crowd in
the hub of that, and in a hub of its own: there what it waits for is the machine, whose processors the crowd keeps busy,
too. Goal: its p99 in the hub of the crowd is at most twice that in its own, or 1 ms more.
"""

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import mean, quantiles

from tests.guard.count_calls import Host, HttpHost, UnixHost, hub

CROWD = 64
CARRIERS = ("unix", "http")


def host_of(carrier: str, place: str, token: str, callers: int, server: str) -> Host:
    """A host with so many callers. `place`: the path of the socket, or the port."""
    if carrier == "unix":
        return UnixHost(place, callers, server)
    return HttpHost(int(place), token, "legacy", callers, server)


@contextmanager
def crowd(carrier: str, place: str, token: str) -> Iterator[None]:
    """A process with a busy host."""
    argv = [sys.executable, "-m", "tests.load.fairness", "crowd", carrier, place, token]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.communicate()


def run_crowd(carrier: str, place: str, token: str) -> None:
    """Call until standard input ends."""
    with closing(host_of(carrier, place, token, CROWD, "echo")) as host:
        host.round()
        print("busy", flush=True)  # noqa: T201
        while not select.select([sys.stdin], [], [], 0)[0]:
            host.round()


def measure(host: Host, seconds: float) -> tuple[float, float]:
    """The p50 and p99 of calls, one after the other, in ms."""
    took, end = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        host.round()
        took.append(1000 * (time.perf_counter() - began))
    cuts = quantiles(took, n=100)
    return cuts[49], cuts[98]


def main(seconds: float) -> None:
    """Print the figures of each carrier."""
    with ExitStack() as stack:
        hubs = [stack.enter_context(place_of_hub()) for _ in range(2)]
        for carrier in CARRIERS:
            places = [(unix if carrier == "unix" else port, token) for unix, port, token in hubs]
            ones = [stack.enter_context(closing(host_of(carrier, *place, 1, "other"))) for place in places]
            for one in ones:
                measure(one, 1)  # until all is warm
            alone = measure(ones[0], seconds)
            turns: list[list[tuple[float, float]]] = [[], []]
            for _ in range(2):
                for one, found in zip(ones, turns, strict=True):
                    with crowd(carrier, *places[0]):
                        found.append(measure(one, seconds / 2))
            shared, own = ([mean(each) for each in zip(*found, strict=True)] for found in turns)
            is_fair = shared[1] <= max(2 * own[1], own[1] + 1)
            for name, (p50, p99) in (("nobody else calls", alone), ("own hub", own), ("hub of the crowd", shared)):
                print(f"{carrier}, {name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")  # noqa: T201
            print(f"{carrier}: {'fair' if is_fair else 'not fair'}")  # noqa: T201


@contextmanager
def place_of_hub() -> Iterator[tuple[str, str, str]]:
    """A hub: its socket, its port, and its token."""
    program = [sys.executable, "-m", "hub"]
    with (
        tempfile.TemporaryDirectory() as directory,
        hub(Path(directory), *program, names=("echo", "other")) as (env, process),
    ):
        port = process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1]
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        yield f"{env['XDG_RUNTIME_DIR']}/hubd/hubd.sock", port, token


if __name__ == "__main__":
    if sys.argv[1:2] == ["crowd"]:
        run_crowd(*sys.argv[2:])
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else 10)
