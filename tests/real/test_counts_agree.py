"""A real host calls real servers, and some of that fails: all that tells of it counts the same."""

import json
import re
import urllib.request
from collections import Counter

import pytest

from tests.real.recorded import OFFICIAL, table
from tests.real.test_survival import SURVIVOR, Survivor
from tests.support.attached import hubd, upstream
from tests.support.processes import HUBD, PYTHON_1, PYTHON_2, running, running_hub

CALLS = pytest.mark.parametrize("calls", [120, pytest.param(960, marks=pytest.mark.everything)])
SAMPLE = re.compile(r"mcp_(server|client)_operation_duration_seconds_count\{(.*)\} (\d+)")
TROUBLE = upstream(
    "trouble",
    {"on": {"tools/call:fail": [["fail", -32050, "no"]], "tools/call:die": [["exit", 3]], "tools/call:mute": []}},
)


def counts_of(text, side):
    """Calls of tools by error type, as the metrics tell."""
    found = Counter()
    for each, labels, count in SAMPLE.findall(text):
        if each == side and 'mcp_method_name="tools/call"' in labels:
            error = re.search(r'error_type="([^"]*)"', labels)
            found[error[1] if error else ""] += int(count)
    return found


def audit_of(hub):
    """The ends of calls in the audit log."""
    lines = hubd(hub, "audit", "query", "--json").stdout.splitlines()
    return [record for record in map(json.loads, lines) if record.get("k") == "end"]


@pytest.mark.covers("OM-1", "OM-2")
@CALLS
def test_metrics_calls_and_the_audit_log_agree(tmp_path, calls):
    (tmp_path / "a.txt").write_text("a")
    config = "\n".join(
        [
            table(
                "files", command="node", args=[str(OFFICIAL / "server-filesystem" / "dist" / "index.js"), str(tmp_path)]
            ),
            table("time", command=str(PYTHON_2), args=["-m", "mcp_server_time", "--local-timezone", "UTC"]),
            TROUBLE,
            "tool_timeouts = { mute = 0.5 }\n",
        ]
    )
    read = "files__read_text_file", {"path": str(tmp_path / "a.txt")}
    good = [read, ("time__get_current_time", {"timezone": "Europe/Rome"})]
    bad = {
        "tool_error": (("files__read_text_file", {"path": str(tmp_path / "nothing")}), 12),
        "-32050": (("trouble__fail", {}), 8),
        "upstream_timeout": (("trouble__mute", {}), 3),
        "upstream_lost": (("trouble__die", {}), 2),
    }
    expected = Counter({error: count for error, (_, count) in bad.items()}) + Counter({"": calls})
    with running_hub(tmp_path, config) as hub:
        argv = [PYTHON_1, SURVIVOR, HUBD, "connect"]
        with running(argv, tmp_path / "host.log", env=hub.env) as process:
            host = Survivor(process)
            for each in range(calls):
                name, arguments = good[each % 2]
                assert "error" not in host.tell(f"call {name} {json.dumps(arguments)}")
            for (name, arguments), count in bad.values():
                for _ in range(count):
                    host.tell(f"call {name} {json.dumps(arguments)}")
            for _ in range(5):
                host.tell("call files__no_such_tool {}")
        request = urllib.request.Request(
            hub.url.removesuffix("/mcp") + "/metrics", headers={"Authorization": f"Bearer {hub.token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        assert counts_of(text, "client") == expected
        assert counts_of(text, "server") == expected + Counter({"-32602": 5}), "names that there are not are no call"
        listed = [json.loads(line) for line in hubd(hub, "calls", "-n", "10000", "--json").stdout.splitlines()]
        assert Counter(each["outcome"] for each in listed) == expected
        ends = audit_of(hub)
        while len(ends) < expected.total():  # the last are written a moment later
            ends = audit_of(hub)
        assert Counter(each["out"] == "ok" for each in ends) == {True: calls, False: expected.total() - calls}
