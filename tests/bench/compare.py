"""hubd beside other gateways, as Markdown on standard output.

    make compare                        everything; about a quarter of an hour
    make compare ARGS=--write           puts it into hub/README.md, too
    make compare ARGS='--only stdio --rounds 1 --seconds 0.2'

The machine should have nothing else to do.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.faults import kill_one, stop_one
from tests.bench.gateways import ContextForge, Envoy, FastMcp, Gateway, Hubd, McpProxy, Relay
from tests.bench.install import install
from tests.bench.measure import CASES, SIXTEEN, Samples, measure
from tests.bench.report import Comparison, Faults, preamble
from tests.bench.responses import CallFailed
from tests.bench.scene import Direct, Kind, RunningGateway, Servers, gateways, servers
from tests.support.processes import ROOT

COMPARED: Final[dict[Kind, tuple[Gateway, ...]]] = {
    "http": (Hubd(), Envoy(), FastMcp(), ContextForge()),
    "stdio": (Hubd(), Relay(), FastMcp(), McpProxy()),
}
HTTPS: Final = ("hubd", "Envoy")
README: Final = ROOT / "hub" / "README.md"
BLOCK: Final = re.compile(r"(?<=<!-- compare -->\n).*?(?=<!-- /compare -->)", re.S)


def compare(kind: Kind, all: Sequence[Gateway], rounds: int, seconds: float) -> Comparison:
    """Measure these gateways before servers of one kind; before those over HTTP also some with TLS. Raises CallFailed,
    OSError."""
    versions = {gateway.name: gateway.version for gateway in all}
    samples: dict[str, dict[str, Samples]] = {}
    with stage(kind, all) as (behind, running):
        direct = [Direct(behind.upstreams[0])] if kind == "http" else []
        for case in CASES:
            _say(f"{kind}: {case.title}")
            samples[case.title] = measure([*running, *direct], case, rounds, seconds)
    https: dict[str, Samples] = {}
    if kind == "http":
        _say(f"https: {SIXTEEN.title}")
        versions["direct"] = ""
        with stage("https", [gateway for gateway in all if gateway.name in HTTPS]) as (_, running):
            https = measure(running, SIXTEEN, rounds, seconds)
    faults = {gateway.name: found for gateway in all if (found := _faults(kind, gateway, seconds))}
    return Comparison(kind, versions, samples, https, faults)


def _faults(kind: Kind, gateway: Gateway, seconds: float) -> Faults | None:
    """None for the relay, which handles none, and for a gateway that does not get so far."""
    if isinstance(gateway, Relay):
        return None
    _say(f"{kind}: one server of {gateway.name} is stopped, then killed")
    try:
        with stage(kind, [gateway]) as (behind, [running]):
            return Faults(stop_one(running, behind, seconds), kill_one(running, behind))
    except (CallFailed, OSError) as error:
        _say(f"{gateway.name}: {error}")
        return None


@contextmanager
def stage(kind: Kind, all: Sequence[Gateway]) -> Iterator[tuple[Servers, list[RunningGateway]]]:
    """Servers of this kind and these gateways before them, in a directory of their own."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        servers(kind, Path(directory)) as behind,
        gateways(all, behind, Path(directory)) as running,
    ):
        yield behind, running


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.6, help="length of a turn")
    parser.add_argument("--only", choices=list(COMPARED), help="servers of one kind")
    parser.add_argument("--write", action="store_true", help="put the tables into hub/README.md")
    arguments = parser.parse_args()
    kinds = [arguments.only] if arguments.only else list(COMPARED)
    install({gateway.package for kind in kinds for gateway in COMPARED[kind] if gateway.package})
    parts = [preamble(arguments.rounds, arguments.seconds)]
    _print(parts[0])
    for kind in kinds:
        parts.append(compare(kind, COMPARED[kind], arguments.rounds, arguments.seconds).table())
        _print(parts[-1])
    if arguments.write:
        text = BLOCK.sub(lambda _: "\n\n".join([*parts, ""]), README.read_text(encoding="utf-8"))
        README.write_text(text, encoding="utf-8")


def _print(part: str) -> None:
    print(f"{part}\n", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
