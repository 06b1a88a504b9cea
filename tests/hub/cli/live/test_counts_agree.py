"""All that shows calls agrees on how many there were, and how each ended: `hubd calls`, `hubd status`, what `hubd top`
and the dashboard are told, and the audit log."""

import json
from collections import Counter
from pathlib import Path

import pytest

from hub.control.client import ControlClient
from hub.control.methods import WATCH
from tests.support.attached import hubd, ready, said, upstream
from tests.support.processes import running_hub

GOOD = 100
SCRIPT = {
    "on": {
        "tools/call:wrong": [["reply", {"content": [], "isError": True}]],
        "tools/call:fail": [["fail", -32000, "no"]],
        "tools/call:hang": [],
        "tools/call:late": [],
        "tools/call:die": [["exit", 3]],
    }
}
ENDS = {
    "echo": ("", GOOD),
    "wrong": ("tool_error", 5),
    "fail": ("-32000", 5),
    "late": ("upstream_timeout", 1),
    "hang": ("cancelled", 5),
    "die": ("upstream_lost", 1),
}


@pytest.mark.covers("SEE-1", "SEE-2", "SEE-3", "OM-1")
def test_all_that_shows_calls_agrees(tmp_path):
    config = upstream("talker", SCRIPT) + "tool_timeouts = { late = 0.2 }\n"
    with running_hub(tmp_path, config) as hub:
        with ready(hub) as host:
            number = 10
            for name, (_, count) in ENDS.items():
                for _ in range(count):
                    number += 1
                    host.ask(number, "tools/call", {"name": f"talker__{name}", "arguments": {}})
                    if name == "hang":
                        host.send(
                            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
                        )
                    else:
                        while host.receive().get("id") != number:
                            pass
            host.ask(1_000, "ping", {})
            while host.receive().get("id") != 1_000:
                pass
            expected = Counter(dict(ENDS.values()))
            calls = [json.loads(line) for line in said(hub, "calls", "-n", "1000", "--json").splitlines()]
            assert Counter(call["outcome"] for call in calls) == expected
            failed = sum(call["failed"] for call in calls)
            assert failed == expected.total() - GOOD - ENDS["hang"][1]
            totals = json.loads(said(hub, "status", "--json"))["calls"]
            assert (totals["calls"], totals["failed"], totals["busy"]) == (expected.total(), failed, 0)
            with ControlClient(Path(hub.env["XDG_RUNTIME_DIR"], "hubd", "control.sock")) as client:
                seen = client.request(WATCH)
            [server] = seen.servers
            assert (
                (seen.totals.calls, seen.totals.failed) == (server.calls, server.failed) == (expected.total(), failed)
            )
            assert server.failed_ratio == seen.totals.failed_ratio == failed / (server.calls - ENDS["hang"][1])
            assert (sum(seen.seconds.calls), sum(seen.seconds.failed)) == (server.calls, server.failed)
            assert sum(server.spark) == server.calls
        written = Counter()
        while written.total() < expected.total():  # the last are written a moment later
            ends = hubd(hub, "audit", "query", "--json").stdout.splitlines()
            written = Counter(record["out"] for record in map(json.loads, ends) if "out" in record)
        assert written.total() == expected.total()
