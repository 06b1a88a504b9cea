"""Fairness: how long one caller waits while 64 callers of another session are busy, by carrier of hosts.

    .venv/bin/python -m tests.load.fairness [SECONDS]

The crowd and the one call servers of their own, so that what is measured is the hub. Goal: the p99 of the one is at
most twice its own alone, or 1 ms more. On a busy machine it says nothing.
"""

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles

from tests.guard.count_calls import Host, HttpHost, UnixHost, hub

CROWD = 64
CARRIERS = ("unix", "http")


def host_of(carrier: str, place: str, token: str, callers: int, server: str) -> Host:
    """A host with so many callers. `place`: the path of the socket, or the port."""
    if carrier == "unix":
        return UnixHost(place, callers, server)
    return HttpHost(int(place), token, "legacy", callers, server)


@contextmanager
def crowd(carrier: str, place: str, token: str) -> Iterator[list[float]]:
    """A process with a busy host; the list will hold its calls a second."""
    argv = [sys.executable, "-m", "tests.load.fairness", "crowd", carrier, place, token]
    rates: list[float] = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield rates
        finally:
            rates.append(float(process.communicate()[0]))


def run_crowd(carrier: str, place: str, token: str) -> None:
    """Call until standard input ends."""
    with closing(host_of(carrier, place, token, CROWD, "echo")) as host:
        host.round()
        print("busy", flush=True)  # noqa: T201
        rounds, began = 0, time.perf_counter()
        while not select.select([sys.stdin], [], [], 0)[0]:
            host.round()
            rounds += 1
    print(rounds * CROWD / (time.perf_counter() - began))  # noqa: T201


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
    program = [sys.executable, "-m", "hub"]
    with (
        tempfile.TemporaryDirectory() as directory,
        hub(Path(directory), *program, names=("echo", "other")) as (env, process),
    ):
        port = process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1]
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        for carrier in CARRIERS:
            place = f"{env['XDG_RUNTIME_DIR']}/hubd/hubd.sock" if carrier == "unix" else port
            with closing(host_of(carrier, place, token, 1, "other")) as one:
                measure(one, 1)  # until all is warm
                alone = measure(one, seconds)
                with crowd(carrier, place, token) as rates:
                    beside = measure(one, seconds)
            is_fair = beside[1] <= max(2 * alone[1], alone[1] + 1)
            print(  # noqa: T201
                f"{carrier}: p50 {alone[0]:.2f} ms, p99 {alone[1]:.2f} ms alone; p50 {beside[0]:.2f} ms, "
                f"p99 {beside[1]:.2f} ms beside {CROWD} callers ({rates[0]:.0f} calls a second): "
                f"{'fair' if is_fair else 'not fair'}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["crowd"]:
        run_crowd(*sys.argv[2:])
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else 10)
