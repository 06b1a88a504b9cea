"""The suite's client scenarios, with the hub as the client: the suite checks the requests of its upstream side."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.run import SUITE
from tests.support.processes import NODE

CLIENT = Path(__file__).parent / "client.py"
SCENARIOS = [
    ("2025-06-18", "initialize"),
    ("2025-06-18", "tools_call"),
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "elicitation-sep1034-client-defaults"),
    ("2025-11-25", "sse-retry"),
    ("2025-11-25", "json-schema-2020-12-preservation"),
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "sep-2322-client-request-state"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-custom-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
]
"""Every client scenario of the suite in every revision it applies to, but for those of `LEFT`."""
LEFT = {
    "auth/": "the hub does not yet authorise itself at upstreams",
    "sep-2640-client-": "the skills extension judges who uses skills, and a hub only passes them on",
}
LIMIT_S = 120


@pytest.mark.real
@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
def test_the_hub_is_a_conforming_client(revision, scenario, tmp_path):
    command = f"{sys.executable} {CLIENT}"
    argv = [NODE, SUITE, "client", "--command", command, "--scenario", scenario, "--spec-version", revision]
    done = subprocess.run([*argv, "-o", tmp_path], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    verdicts = json.loads(next(tmp_path.glob("*/checks.json")).read_text())
    failures = [f"{check['id']}: {check.get('errorMessage')}" for check in verdicts if check["status"] == "FAILURE"]
    said = "\n".join(file.read_text() for file in tmp_path.glob("*/stderr.txt"))
    assert failures == [], f"{done.stdout[-2000:]}\n{said[-4000:]}"
    assert any(check["status"] == "SUCCESS" for check in verdicts)


@pytest.mark.real
def test_no_client_scenario_is_left_out_silently():
    listed = subprocess.run([NODE, SUITE, "list"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    listed = listed.partition("Client scenarios")[2].partition("Authorization server scenarios")[0]
    found = re.findall(r"^ *- (\S+) \[(.*)\]", listed, re.MULTILINE)
    offered = {(revision, name) for name, revisions in found for revision in revisions.split(",")}
    assert {pair for pair in offered if not pair[1].startswith(tuple(LEFT))} == set(SCENARIOS)
