"""The suite's client scenarios, with the hub as the client: the suite checks the requests of its upstream side.

`make everything` and `make conformance` run all; `make test` runs four, which its seed draws.
"""

import sys
from pathlib import Path

import pytest

from tests.conformance.run import client_scenarios, failures_of, judge_client
from tests.support.everything import draw

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
    "auth/": "they are in test_auth_scenarios.py",
    "sep-2640-client-": "the skills extension judges who uses skills, and a hub only passes them on",
}


@pytest.mark.real
@pytest.mark.parametrize(("revision", "scenario"), draw(4, SCENARIOS))
def test_the_hub_is_a_conforming_client(revision, scenario, tmp_path):
    judged = judge_client(f"{sys.executable} {CLIENT}", scenario, revision, tmp_path)
    assert failures_of(judged.checks) == [], judged.said
    assert any(check["status"] == "SUCCESS" for check in judged.checks)


@pytest.mark.real
def test_no_client_scenario_is_left_out_silently():
    offered = client_scenarios()
    assert {pair for pair in offered if not pair[1].startswith(tuple(LEFT))} == set(SCENARIOS)
