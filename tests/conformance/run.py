"""The official conformance suite against the reference server, directly and through hubd.

    python tests/conformance/run.py [all | LEG ...] [--direct] [--out DIRECTORY]

A leg is one host revision and one kind of upstream. What the suite sees when it talks to the upstream itself, it must
see through the hub; `open-scenarios.txt` names what is left to later work and may only shrink.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from processes import DEPS, NODE, PACKAGES, PYTHON_1, PYTHON_2, ROOT, running, running_hub  # noqa: E402

SUITE = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REFERENCE = HERE / "reference.py"
FROZEN = ("2025-11-25", "2026-07-28")
"""Revisions with a frozen set of requirements; for older ones all applicable scenarios run."""
SUITE_LIMIT_S = 900
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

    def argv(self) -> list[str]:
        """The command that runs the upstream."""
        python = PYTHON_1 if self.sdk.startswith("1.") else PYTHON_2
        command = [str(python), str(REFERENCE), str(DEPS / "src" / f"mcp-{self.sdk}")]
        if self.transport == "stdio":
            command.append("--stdio")
        if self.only:
            command += ["--only", self.only]
        return command


LEGS = {
    leg.name: leg
    for leg in (
        Leg("2025-11-25", "2.3.0"),
        Leg("2026-07-28", "2.3.0"),
        Leg("2025-11-25", "2.3.0", "stdio"),
        Leg("2026-07-28", "2.3.0", "stdio"),
        Leg("2025-06-18", "2.3.0"),
        Leg("2025-03-26", "2.3.0"),
        Leg("2025-11-25", "1.30.0"),
        Leg("2026-07-28", "2.3.0", only="modern"),
        Leg("2025-11-25", "2.3.0", only="modern"),
        Leg("2026-07-28", "1.30.0"),
    )
}
"""The last two cross the eras: the host speaks one, the upstream only the other."""

Verdicts = dict[str, dict[str, str]]
"""Scenario -> check -> the worst status it had."""
RANK = ("SKIPPED", "INFO", "SUCCESS", "WARNING", "FAILURE")


def judge(url: str, revision: str, out: Path) -> Verdicts:
    """Let the suite judge the server at `url`; its records go to `out`."""
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
    """What the suite recorded below `out`."""
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


def failed(checks: dict[str, str]) -> list[str]:
    """The checks that make a scenario fail."""
    return [id for id, status in checks.items() if status == "FAILURE"]


def run_leg(leg: Leg, out: Path, *, direct: bool = False) -> Verdicts:
    """One leg through a fresh hub, or straight at the upstream."""
    with tempfile.TemporaryDirectory(prefix="hubd-conformance-") as scratch:
        directory = Path(scratch)
        if leg.transport == "stdio":
            assert not direct, "the suite speaks HTTP only"
            command, *args = leg.argv()
            entry = f"command = {json.dumps(command)}\nargs = {json.dumps(args)}"
            return through_hub(leg, entry, directory, out)
        with running(leg.argv(), directory / "upstream.log") as upstream:
            url = upstream.wait_for(r"http://\S+")[0]
            if direct:
                return judge(url, leg.revision, out)
            return through_hub(leg, f"url = {json.dumps(url)}", directory, out)


def through_hub(leg: Leg, entry: str, directory: Path, out: Path) -> Verdicts:
    config = f'[upstreams.reference]\n{entry}\nprefix = ""\n'
    with running_hub(directory, config, auth="none") as hub:
        try:
            return judge(hub.url, leg.revision, out)
        finally:
            (out / "hubd.log").write_text(hub.process.log.read_text(errors="replace"))


# --- the list that may only shrink ------------------------------------------------------------------------------------


def open_scenarios() -> dict[str, set[str]]:
    """Leg -> scenarios that are left to later work."""
    found: dict[str, set[str]] = {}
    for line in (HERE / "open-scenarios.txt").read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            leg, scenario = text.split()
            found.setdefault(leg, set()).add(scenario)
    return found


def surprises(leg: Leg, verdicts: Verdicts) -> list[str]:
    """Sentences on what differs from `open-scenarios.txt`; none: as written there."""
    if not verdicts:
        return [f"{leg.name}: the suite recorded nothing"]
    left = open_scenarios().get(leg.name, set())
    said = [
        f"{leg.name}: {scenario} failed: {', '.join(failed(checks))}"
        for scenario, checks in verdicts.items()
        if failed(checks) and scenario not in left
    ]
    said += [
        f"{leg.name}: {scenario} passes now: take it off open-scenarios.txt"
        for scenario in sorted(left)
        if scenario in verdicts and not failed(verdicts[scenario])
    ]
    said += [f"{leg.name}: no scenario is called {scenario}" for scenario in sorted(left - verdicts.keys())]
    return said


def summary(verdicts: Verdicts) -> str:
    passed = sum(not failed(checks) for checks in verdicts.values())
    sound = sum(status != "FAILURE" for checks in verdicts.values() for status in checks.values())
    total = sum(len(checks) for checks in verdicts.values())
    return f"{passed} of {len(verdicts)} scenarios, {sound} of {total} checks"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("legs", nargs="*", default=["all"], metavar="LEG", help=", ".join(LEGS))
    parser.add_argument("--direct", action="store_true", help="judge the upstream itself, for comparison")
    parser.add_argument("--out", type=Path, default=ROOT / ".build" / "conformance")
    options = parser.parse_args()
    names = list(LEGS) if options.legs == ["all"] else options.legs
    complaints: list[str] = []
    for name in names:
        leg = LEGS[name]
        if options.direct and leg.transport == "stdio":
            continue
        out = options.out / ("direct" if options.direct else "hub") / name
        subprocess.run(["rm", "-rf", out], check=True)
        verdicts = run_leg(leg, out, direct=options.direct)
        complaints += [] if options.direct else surprises(leg, verdicts)
        sys.stdout.write(f"{name:40} {summary(verdicts)}\n")
        for scenario, checks in verdicts.items():
            if failed(checks):
                sys.stdout.write(f"    {scenario}: {', '.join(failed(checks))}\n")
        sys.stdout.flush()
    for complaint in complaints:
        sys.stdout.write(f"unexpected: {complaint}\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
