"""Scraping: how long calls take while the metrics of 2 000 tools are read, and while nobody reads them.

    .venv/bin/python -m tests.load.scraped [SECONDS [EVERY]]

Two hosts make 300 calls a second. A reader of the metrics comes every so many seconds, as Prometheus does, or does not
come, in turns of so many seconds: so both are measured in one run. Goal: the p99 of calls with it is at most 1.1 times
that without. On a busy machine it says nothing.
"""

import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import trio

from tests.load.load_hosts import LoadHost, table
from tests.support.processes import Hub, running_hub

TOOLS = 2_000
CALLS_PER_S = 300
SECONDS = 32.0
EVERY_S = 15.0
"""Time between two readings: the one in most examples of Prometheus, which waits a minute if it is not told."""
TURNS = 5


class Paced:
    """Calls at a steady pace, whatever becomes of those before."""

    def __init__(self, hosts: list[LoadHost]) -> None:
        self._hosts = hosts
        self.took: list[float] = []
        self._number = 0

    async def run(self, seconds: float) -> None:
        """Call for so many seconds, and wait for all answers."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for each in range(round(seconds * CALLS_PER_S)):
                await trio.sleep_until(began + each / CALLS_PER_S)
                nursery.start_soon(self._call)

    async def _call(self) -> None:
        self._number += 1
        host = self._hosts[self._number % len(self._hosts)]
        call = await host.call("many", f"tool_{self._number % TOOLS}")
        assert call.outcome == "ok", call
        self.took.append(call.ms)


def read_metrics(url: str, token: str, every_s: str) -> None:
    """Read the metrics again and again, until standard input ends; then say how often, and how much that was."""
    import select

    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    times = size = 0
    print("ready", flush=True)  # noqa: T201
    while not select.select([sys.stdin], [], [], float(every_s))[0]:
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        times += 1
    print(times, size)  # noqa: T201


@contextmanager
def scraped(hub: Hub, every_s: float) -> Iterator[list[int]]:
    """A process that reads the metrics; the list gets how often, and the bytes of the last."""
    url = hub.url.removesuffix("/mcp") + "/metrics"
    argv = [sys.executable, "-m", "tests.load.scraped", "read", url, hub.token or "", str(every_s)]
    found: list[int] = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield found
        finally:
            found += map(int, process.communicate()[0].split())


async def measure(hub: Hub, seconds: float, every_s: float) -> None:
    """Print the figures."""
    hosts = [LoadHost(hub, name) for name in ("one", "two")]
    async with trio.open_nursery() as nursery:
        for host in hosts:
            await nursery.start(host.run)
        for each in range(TOOLS):  # each is told from then on
            await hosts[each % 2].call("many", f"tool_{each}")
        calls = Paced(hosts)
        await calls.run(2)
        took: dict[bool, list[float]] = {False: [], True: []}
        times = size = 0
        for turn in range(2 * TURNS):
            calls.took = took[bool(turn % 2)]
            if turn % 2:
                with scraped(hub, every_s) as found:
                    await calls.run(seconds)
                times, size = times + found[0], max(size, found[1])
            else:
                await calls.run(seconds)
        nursery.cancel_scope.cancel()
    without, beside = (quantiles(took[scraping], n=100) for scraping in (False, True))
    ratio = beside[98] / without[98]
    print(  # noqa: T201
        f"p50 {without[49]:.2f} ms, p99 {without[98]:.2f} ms alone; p50 {beside[49]:.2f} ms, p99 {beside[98]:.2f} ms "
        f"beside {times} readings of {size / 1e6:.1f} MB, {TOOLS} tools, one in {every_s:g} s: "
        f"p99 {ratio:.2f} times that of alone"
    )


def main(seconds: float = SECONDS, every_s: float = EVERY_S) -> None:
    """Measure a hub with a server of many tools."""
    tools = [f"tool_{each}" for each in range(TOOLS)]
    with (
        tempfile.TemporaryDirectory() as directory,
        running_hub(Path(directory), table("many", {"tools": tools})) as hub,
    ):
        trio.run(measure, hub, seconds, every_s)


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read_metrics(*sys.argv[2:])
    else:
        main(*map(float, sys.argv[1:]))
