"""The cost of a cached `resources/read`, compared with the same read direct and through other gateways.

    python tests/load/reads.py BENCH [--rounds 3] [--seconds 1] [--versus fastmcp mcp_hub]

BENCH is the folder of the benchmark (bench.py, its clients and adapters). Two kinds of upstream: its own fixture, which
costs next to nothing (modern, `ttlMs` of an hour), and a real server that a person would use (server-everything, of
the handshake era, with subscriptions). Targets take turns within a round; the figure is the CPU time of all processes
but the client, per read, the median over the rounds. Only ratios within one run mean anything.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EVERYTHING = ROOT / ".deps/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
SIZES = {1 << 10: "1 KB", 1 << 20: "1 MB"}


class Target:
    """Where reads are sent: `open` makes a channel, `pids` names the processes whose time counts."""

    def __init__(self, name: str, open: Callable[[], Any], pids: Callable[[], list[int]], procs: Any) -> None:
        self.name = name
        self._pids = pids
        self._procs = procs
        self.channel, self.uris = self._ready(open)
        self.costs: dict[str, list[float]] = {}
        self.rates: dict[str, list[float]] = {}

    def _ready(self, open: Callable[[], Any]) -> tuple[Any, dict[str, str]]:
        """A channel, once resources are listed, and their URIs by name."""
        deadline = time.perf_counter() + 30
        while True:
            with contextlib.suppress(Exception):
                channel = open()
                if found := channel.call("resources/list")["resources"]:
                    return channel, {entry["name"]: entry["uri"] for entry in found}
            assert time.perf_counter() < deadline, f"{self.name} lists nothing"
            time.sleep(0.2)  # noqa: TID251 - a script

    def read(self, what: str) -> bytes:
        data, _ = self.channel.call("resources/read", {"uri": self.uris[what]}, raw=True)
        assert b'"result"' in data[:200] or b'"contents"' in data, data[:300]
        return data

    def measure(self, what: str, seconds: float) -> None:
        for _ in range(3):
            self.read(what)
        before, reads = self._spent(), 0
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            self.read(what)
            reads += 1
        after = self._spent()
        spent = sum(after[pid] - before.get(pid, 0.0) for pid in after)
        self.costs.setdefault(what, []).append(spent / reads * 1000)
        self.rates.setdefault(what, []).append(reads / passed)

    def _spent(self) -> dict[int, float]:
        return {pid: self._procs.cpu(pid) for pid in self._pids()}


@contextlib.contextmanager
def upstream(kind: str, bench: Path, harness: Any) -> Iterator[tuple[Any, subprocess.Popen[bytes], str]]:
    """A running server of `kind`, and the era it speaks."""
    port = harness.free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    if kind == "fixture":
        argv = [sys.executable, str(Path(__file__).with_name("reads_upstream.py")), str(bench)]
        argv += ["http", "--port", str(port), "--name", "up0", "--era", "dual"]
    else:
        argv = ["node", str(EVERYTHING), "streamableHttp"]
    process = subprocess.Popen(
        argv, env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        harness.accepting(port, process, 20)
        yield harness.Upstream("up0", "http", argv, url), process, "modern" if kind == "fixture" else "legacy"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def gateway(name: str, server: Any, harness: Any) -> Iterator[tuple[Any, subprocess.Popen[bytes], Any]]:
    """A running gateway before `server`: its adapter, its process, its arguments."""
    adapter = harness.adapters.load(name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = harness.Run(Path(folder), harness.free_port(), [server])
        env = {**os.environ, **adapter.env(run)}
        log = open(Path(folder) / "log", "wb")  # noqa: SIM115 - closed with the folder
        process = subprocess.Popen(
            adapter.argv(run), env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            harness.accepting(run.port, process, adapter.patience)
            adapter.ready(run)
            yield adapter, process, run
        finally:
            harness.procs.stop(process)
            log.close()


def compare(kind: str, names: list[str], bench: Path, harness: Any, rounds: int, seconds: float) -> list[Target]:
    """All targets before one kind of upstream, measured."""
    with contextlib.ExitStack() as stack:
        server, process, era = stack.enter_context(upstream(kind, bench, harness))
        targets = [
            Target(
                "direct", lambda: harness.Streamable(server.url, era).handshake(), lambda: [process.pid], harness.procs
            )
        ]
        for name in names:
            adapter, child, run = stack.enter_context(gateway(name, server, harness))
            channel = harness.HttpSse if adapter.front == "sse" else harness.Streamable
            spoken = era if era in adapter.eras else "legacy"

            def open_channel(adapter: Any = adapter, run: Any = run, channel: Any = channel, era: str = spoken) -> Any:
                return channel(adapter.url(run), era, adapter.headers(run)).handshake()

            def pids(child: Any = child) -> list[int]:
                return [process.pid, *(pid for group in harness.procs.tree(child.pid) for pid in group)]

            targets.append(Target(name, open_channel, pids, harness.procs))
        for round in range(rounds):
            for at in range(len(targets)):
                target = targets[(at + round) % len(targets)]
                for what in measured(kind, target):
                    target.measure(what, seconds)
        return targets


def measured(kind: str, target: Target) -> list[str]:
    """The names of the resources."""
    if kind == "fixture":
        return [f"of {size}" for size in SIZES]
    return list(target.uris)[:1]


def show(kind: str, targets: list[Target]) -> None:
    """A table: milliseconds of CPU per read, the ratio to direct, reads per second."""
    sys.stdout.write(f"\n{kind}\n")
    for what in measured(kind, targets[0]):
        direct = statistics.median(targets[0].costs[what])
        for target in targets:
            [costs, rates] = [table.get(what) or next(iter(table.values())) for table in (target.costs, target.rates)]
            cost = statistics.median(costs)
            sys.stdout.write(
                f"  {what:24.24} {target.name:16} {cost:8.3f} ms CPU  {cost / direct:6.2f} of direct"
                f"  {statistics.median(rates):8.0f} reads/s\n"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--versus", nargs="*", default=[])
    parser.add_argument("--kinds", nargs="*", default=["fixture", "everything"])
    options = parser.parse_args()
    bench = options.bench.resolve()
    sys.path.insert(0, str(bench))
    os.environ.setdefault("HUBD_BIN", str(ROOT / ".venv/bin/hubd"))
    import bench as harness

    for kind in options.kinds:
        show(kind, compare(kind, ["hubd", *options.versus], bench, harness, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
