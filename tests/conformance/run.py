"""The official conformance suite against the reference server, directly and through hubd.

    python tests/conformance/run.py [all | LEG ...] [--direct] [--behind haproxy|nginx] [--out DIRECTORY]

A leg is one host revision and one kind of upstream. Every check that passes when the suite talks to the reference
server itself must pass through the hub; `excused.txt` names the exceptions with reasons, and may only shrink.
`--behind` puts two hubs behind a balancer, as systemd/README.md has it, in place of the one.
"""

import argparse
import contextlib
import fcntl
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conformance.client import Host
from tests.real.balancers import fleet
from tests.support.processes import DEPS, NODE, PACKAGES, PYTHON_1, PYTHON_2, ROOT, running, running_hub

HERE = Path(__file__).parent
SUITE = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REFERENCE = HERE / "reference.py"
MODERN = "2026-07-28"
FROZEN = ("2025-11-25", MODERN)
"""Revisions with a frozen set of requirements; for older ones all applicable scenarios run."""
SUITE_LIMIT_S = 900
CLIENT_LIMIT_S = 120
FOREIGN = ("tasks-", "sep-2640-")
"""Scenarios of extensions, which no revision requires and the reference server does not have."""


class Leg(NamedTuple):
    """One host revision against one kind of upstream."""

    revision: str
    sdk: str
    transport: str = "http"
    only: str | None = None

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.revision, "on", self.sdk, self.transport, self.only) if part)

    @property
    def reference(self) -> "Leg":
        """The server that this leg is compared with: the same server without the hub, over HTTP as the suite requires.

        Across eras the suite cannot talk to that server; there it is the server that speaks every revision.
        """
        across = self.only == "modern" if self.revision != MODERN else self.sdk.startswith("1.")
        return Leg(self.revision, "2.3.0") if across else self._replace(transport="http")

    def argv(self) -> list[str]:
        """The command that runs the upstream."""
        python = PYTHON_1 if self.sdk.startswith("1.") else PYTHON_2
        command = [str(python), str(REFERENCE), str(DEPS / "src" / f"mcp-{self.sdk}")]
        if self.transport == "stdio":
            command.append("--stdio")
        if self.transport == "ws":
            command += ["--ws", str(next(PYTHON_2.parent.parent.glob("lib/python3*/site-packages")))]
        if self.only:
            command += ["--only", self.only]
        return command


WITHIN = (Leg("2025-11-25", "2.3.0"), Leg(MODERN, "2.3.0"))
ACROSS = (Leg("2025-11-25", "2.3.0", only="modern"), Leg(MODERN, "1.30.0"))
"""The legs of which `make test` has one each, one for each pair of eras: compared with two references only. In those of
`ACROSS` the host speaks one era, the upstream only the other."""
LEGS = {
    leg.name: leg
    for leg in (
        *WITHIN,
        *ACROSS,
        Leg(MODERN, "2.3.0", "stdio"),
        Leg("2025-11-25", "2.3.0", "stdio"),
        Leg("2025-06-18", "2.3.0"),
        Leg("2025-03-26", "2.3.0"),
        Leg("2025-11-25", "2.3.0", only="legacy"),
        Leg("2025-11-25", "1.30.0"),
        Leg("2025-11-25", "1.30.0", "stdio"),
        Leg("2025-11-25", "1.30.0", "ws"),
        Leg(MODERN, "1.30.0", "ws"),
        Leg(MODERN, "2.3.0", only="modern"),
        Leg("2025-06-18", "2.3.0", "stdio"),
        Leg("2025-06-18", "1.30.0"),
        Leg("2025-06-18", "2.3.0", only="modern"),
        Leg(MODERN, "1.30.0", "stdio"),
    )
}
"""The legs of `make everything` and `make conformance`."""

Verdicts = dict[str, dict[str, str]]
"""Scenario -> check -> the worst status it had."""
RANK = ("SKIPPED", "INFO", "SUCCESS", "WARNING", "FAILURE")


def judge(url: str, revision: str, out: Path) -> Verdicts:
    """Run the suite against the server at `url`; its records go to `out`."""
    which = ["--requirements", revision] if revision in FROZEN else ["--suite", "all", "--spec-version", revision]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "suite.log").open("wb") as log:
        subprocess.run(
            [NODE, SUITE, "server", "--url", url, *which, "-o", out],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=SUITE_LIMIT_S,
            check=False,
        )
    return read_verdicts(out)


def read_verdicts(out: Path) -> Verdicts:
    """The verdicts that the suite recorded below `out`."""
    verdicts: Verdicts = {}
    for file in sorted(out.glob("server-*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        if scenario.startswith(FOREIGN):
            continue
        checks = verdicts.setdefault(scenario, {})
        for check in json.loads(file.read_text()):
            before = checks.get(check["id"], "SKIPPED")
            checks[check["id"]] = max(before, check["status"], key=RANK.index)
    return verdicts


class Stage(NamedTuple):
    """The hubs between the suite and the upstream."""

    url: str
    logs: tuple[Path, ...]
    """The processes of the hubs."""


Stages = Callable[[Path, str], contextlib.AbstractContextManager[Stage]]
"""Makes the hubs, in a directory of their own, from tables of hubd.toml."""


@contextlib.contextmanager
def one_hub(directory: Path, upstreams: str) -> Iterator[Stage]:
    # However busy the machine, the first scenario must not come before the lists of the upstream.
    with running_hub(directory, f"startup_grace_s = 60.0\n{upstreams}", auth="none") as hub:
        yield Stage(hub.url, (hub.process.log,))


def two_hubs(balancer: str, *, affinity: bool = True) -> Stages:
    """Two hubs that share a store, behind this balancer."""

    @contextlib.contextmanager
    def stage(directory: Path, upstreams: str) -> Iterator[Stage]:
        with fleet(directory, upstreams, balancer, affinity=affinity, auth="none") as it:
            yield Stage(it.urls[balancer], tuple(hub.process.log for hub in it.hubs.values()))

    return stage


def run_leg(leg: Leg, out: Path, *, direct: bool = False, stages: Stages = one_hub) -> Verdicts:
    """Run one leg through fresh hubs, or directly at the upstream."""
    with tempfile.TemporaryDirectory(prefix="hubd-conformance-") as scratch:
        directory = Path(scratch)
        if leg.transport == "stdio":
            assert not direct, "the suite speaks HTTP only"
            command, *args = leg.argv()
            entry = f"command = {json.dumps(command)}\nargs = {json.dumps(args)}"
            return through_hub(leg, entry, directory, out, stages)
        with running(leg.argv(), directory / "upstream.log") as upstream:
            url = upstream.wait_for(r"(?:http|ws)://\S+")[0]
            if direct:
                return judge(url, leg.revision, out)
            return through_hub(leg, f"url = {json.dumps(url)}", directory, out, stages)


def through_hub(leg: Leg, entry: str, directory: Path, out: Path, stages: Stages) -> Verdicts:
    asks = "elicitation.per_minute = 1000\nsampling.per_minute = 1000"  # as no server does that works for people
    with stages(directory, f'[upstreams.reference]\n{entry}\nprefix = ""\n{asks}\n') as stage:
        if (leg.revision, leg.transport) == (MODERN, "stdio"):
            # From the first question on a host has a process for itself; the suite would not wait until it has started.
            host = Host(stage.url, "elicitation", "sampling", "roots")
            host.call("test_streaming_elicitation", {})
            host.call("test_simple_text", {})
        try:
            return judge(stage.url, leg.revision, out)
        finally:
            for log in stage.logs:
                (out / f"{log.parent.name}-{log.name}").write_text(log.read_text(errors="replace"))


def direct_verdicts(leg: Leg, out: Path) -> Verdicts:
    """The verdicts on the server itself; determined once for all processes that give the same directory."""
    judged = out / leg.name / "judged"
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{leg.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not judged.exists():
            run_leg(leg, judged.parent, direct=True)
            judged.touch()
    return read_verdicts(judged.parent)


# --- the hub as client ---


class Judged(NamedTuple):
    """What the suite found about a client."""

    checks: list[dict[str, str]]
    said: str
    """The ends of what the suite and the client said."""


def judge_client(command: str, scenario: str, revision: str | None, out: Path) -> Judged:
    """Let the suite judge the client that this command runs; its records go to `out`."""
    argv = [NODE, SUITE, "client", "--command", command, "--scenario", scenario, "-o", out]
    argv += ["--spec-version", revision] if revision else []
    argv += ["--timeout", str(CLIENT_LIMIT_S * 1000)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * CLIENT_LIMIT_S, check=False)
    # A scenario with a slash in its name has a folder in a folder.
    checks = json.loads(next(out.rglob("checks.json")).read_text())
    said = "\n".join(file.read_text()[-4000:] for file in out.rglob("stderr.txt"))
    return Judged(checks, f"{done.stdout[-2000:]}\n{said}")


def failures_of(checks: list[dict[str, str]]) -> list[str]:
    """The checks that failed, each with its reason."""
    return [
        f"{check['id']}: {check.get('errorMessage') or check.get('description')}"
        for check in checks
        if check["status"] == "FAILURE"
    ]


def client_scenarios() -> set[tuple[str, str]]:
    """Every client scenario of the suite, with each revision that it applies to."""
    argv = [NODE, SUITE, "list"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=CLIENT_LIMIT_S, check=True).stdout
    listed = said.partition("Client scenarios")[2].partition("Authorization server scenarios")[0]
    found = re.findall(r"^ *- (\S+) \[(.*)\]", listed, re.MULTILINE)
    return {(revision, name) for name, revisions in found for revision in revisions.split(",")}


# --- the comparison ---------------------------------------------------------------------------------------------------

Check = tuple[str, str]
"""A check: its scenario and id."""
SEVERAL = "@several"
"""Suffix of a leg in `excused.txt`: several hubs behind a balancer."""


def having(verdicts: Verdicts, status: str) -> set[Check]:
    return {(name, check) for name, checks in verdicts.items() for check in checks if checks[check] == status}


def lost(direct: Verdicts, through: Verdicts) -> set[Check]:
    """The checks that the hub loses: they pass without it and not through it, or fail only through it."""
    passed = having(direct, "SUCCESS") - having(through, "SUCCESS")
    return passed | (having(through, "FAILURE") - having(direct, "FAILURE"))


def excused() -> dict[str, set[Check]]:
    """Leg -> checks of `excused.txt`."""
    found: dict[str, set[Check]] = {}
    for line in (HERE / "excused.txt").read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            leg, scenario, check = text.split()
            found.setdefault(leg, set()).add((scenario, check))
    return found


def excuses_of(leg: Leg, hubs: int = 1) -> set[Check]:
    """The checks that a leg may lose; several hubs may lose more than one."""
    found = excused()
    return found.get(leg.name, set()) | (found.get(leg.name + SEVERAL, set()) if hubs > 1 else set())


def surprises(leg: Leg, direct: Verdicts, through: Verdicts, *, hubs: int = 1) -> list[str]:
    """The differences from `excused.txt`, as sentences."""
    if not having(direct, "SUCCESS") or having(direct, "FAILURE"):
        return [f"{leg.reference.name}: the reference itself fails: {sorted(having(direct, 'FAILURE'))}"]
    left = excuses_of(leg, hubs)
    missing = lost(direct, through)
    said = [f"{leg.name} {scenario} {check}: lost through the hub" for scenario, check in sorted(missing - left)]
    said += [f"{leg.name} {scenario} {check}: take it off excused.txt" for scenario, check in sorted(left - missing)]
    return said


def summary(verdicts: Verdicts) -> str:
    failing = {scenario for scenario, _ in having(verdicts, "FAILURE")}
    passed = len(having(verdicts, "SUCCESS"))
    return f"{len(verdicts) - len(failing)} of {len(verdicts)} scenarios, {passed} checks passed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("legs", nargs="*", default=["all"], metavar="LEG", help=", ".join(LEGS))
    parser.add_argument("--direct", action="store_true", help="judge the reference only")
    parser.add_argument("--behind", choices=("haproxy", "nginx"), help="two hubs behind a balancer")
    parser.add_argument("--round-robin", action="store_true", help="without the affinity of legacy sessions")
    parser.add_argument("--out", type=Path, default=ROOT / ".build" / "conformance")
    options = parser.parse_args()
    subprocess.run(["rm", "-rf", options.out], check=True)
    complaints: list[str] = []
    stages = two_hubs(options.behind, affinity=not options.round_robin) if options.behind else one_hub
    for name in LEGS if options.legs == ["all"] else options.legs:
        leg = LEGS[name]
        direct = direct_verdicts(leg.reference, options.out / "direct")
        sys.stdout.write(f"{name:34} direct: {summary(direct)}\n")
        if not options.direct:
            through = run_leg(leg, options.out / "hub" / name, stages=stages)
            hubs = 2 if options.behind else 1
            found = surprises(leg, direct, through, hubs=hubs)
            left = len(excuses_of(leg, hubs))
            sys.stdout.write(f"{'':34} hub:    {summary(through)}, {left} excused\n")
            sys.stdout.writelines(f"    {line}\n" for line in found)
            complaints += found
        sys.stdout.flush()
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
