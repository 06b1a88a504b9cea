"""A trace goes from a host on the Python SDK through the hub to a server on it, each with spans of its own."""

import json
import urllib.request

import pytest

from tests.real.recorded import SERVERS, table
from tests.support.otlp_collector import collecting
from tests.support.processes import DEPS, PYTHON_2, ROOT, free_port, own_directories, running, running_hub

pytestmark = pytest.mark.real
TRACED = ROOT / "tests" / "real" / "traced.py"
HOST = ROOT / "tests" / "real" / "hosts" / "py2.py"
CHAIN = ["tools/call sdk__echo", "tools/call echo", "tools/call echo"]
"""Names of the spans of the hub, for its host and for the server, and of the server's own."""
PHOENIX = DEPS / "py-phoenix" / "bin" / "phoenix"


def call_traced(tmp_path, collector, mode):
    """Have a host call a tool; all three programs send their spans to `collector`."""
    ours = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    arguments = [str(each) for each in (TRACED, "server", SERVERS / "py2_server.py", "sdk")]
    server = table("sdk", command=str(PYTHON_2), args=arguments, env=ours)
    config = f'startup_grace_s = 60.0\n{server}\n[tracing]\nenabled = true\nendpoint = "{collector}"\n'
    with running_hub(tmp_path, config) as hub:
        steps = [["call", "sdk__echo", {"text": "x"}]]
        plan = {"url": hub.url, "token": hub.token, "mode": mode, "steps": steps}
        argv = [PYTHON_2, TRACED, "host", HOST, json.dumps(plan)]
        with running(argv, tmp_path / "host.log", env=own_directories(tmp_path) | ours) as host:
            report = json.loads(host.wait_for(r"^\{.*")[0])
    assert [answer["content"][0]["text"] for answer in report["answers"]] == ["x"]


def chain_of(spans):
    """What the spans of one trace are, the host's first, each below the one before. `spans`: what one is, its trace,
    itself, its parent."""
    assert len({trace for _, trace, _, _ in spans}) == 1
    below = {parent: (what, id) for what, _, id, parent in spans}
    (parent,) = below.keys() - {id for _, _, id, _ in spans}
    chain = []
    while parent in below:
        what, parent = below[parent]
        chain.append(what)
    return chain


@pytest.mark.covers("OT-2", "OT-3")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_four_spans_of_three_programs_are_one_trace(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with collecting() as collector:
        call_traced(tmp_path, collector.url, mode)
        spans = [
            ((each.resource["service.name"], each.is_server, each.name), each.trace, each.id, each.parent)
            for each in collector.await_spans(4)
            if "tools/call" in each.name
        ]
    assert [each[:2] for each in chain_of(spans)] == [
        ("host", False),
        ("hubd", True),
        ("hubd", False),
        ("server", True),
    ]
    assert [name for _, _, name in chain_of(spans)][1:] == CHAIN


@pytest.mark.everything
@pytest.mark.covers("OT-2", "OT-3", "OT-6")
@pytest.mark.skipif(not PHOENIX.exists(), reason="needs Phoenix: make otel")
def test_phoenix_shows_the_trace(tmp_path):
    port = free_port()
    env = own_directories(tmp_path) | {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(tmp_path),
    }
    url = f"http://127.0.0.1:{port}"
    with running([PHOENIX, "serve"], tmp_path / "phoenix.log", env=env, merged=True) as phoenix:
        phoenix.wait_for("startup complete|Uvicorn running", silence_s=110)
        call_traced(tmp_path, url, "auto")
        found = []
        while len(found) < 4:  # they come to be shown a moment later
            with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=100") as answer:
                shown = json.load(answer)["data"]
            found = [each for each in shown if "tools/call" in each["name"]]
    spans = [
        (each["name"], each["context"]["trace_id"], each["context"]["span_id"], each["parent_id"]) for each in found
    ]
    assert chain_of(spans)[1:] == CHAIN
