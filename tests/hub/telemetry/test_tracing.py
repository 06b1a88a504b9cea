"""Calls are traced by a hub that runs: its spans reach a collector, and its servers are told of the trace."""

import json
import re
import subprocess
import sys
import time

import pytest
import trio

from config.loading.checks import hub as checks
from config.settings import HubConfig, TracingConfig
from hub.control.client import ControlClient
from hub.control.methods import RELOAD
from hub.telemetry.tracing import MAX_TOGETHER
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L4, MODERN
from tests.journeys.test_journey_tasks import TaskServer, tasks_of
from tests.support.attached import INITIALIZE, Host, Post, ready, said, upstream
from tests.support.house import a_house
from tests.support.otlp_collector import collecting
from tests.support.processes import ROOT, free_port, running_hub

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

SHARED = ROOT / "tests" / "support" / "shared_server.py"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
CANARY = "canary-77ab"
PAIRS = [(host, server) for host in ("legacy", "modern") for server in ("legacy", "modern")]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


def config(url, *, era="legacy", more="", tracing=""):
    script = {"era": era, "on": {"tools/call:broken": [["fail", -32602, "no such issue"]]}}
    server = upstream("files", script).replace("era = 'legacy'", f"era = '{era}'")
    return f'{server}{more}\n[tracing]\nenabled = true\nendpoint = "{url}"\n{tracing}\n'


def call(hub, host, era, tool="files__echo", meta=None, id=2):
    """Call a tool; returns what its server got as `_meta`."""
    arguments = {"secret": CANARY}
    if era == "legacy":
        host.ask(id, "tools/call", {"name": tool, "arguments": arguments, "_meta": meta or {}})
        answer = host.receive()
    else:
        answer = Post(hub, tool, arguments, token=hub.token, meta=meta or {}, headers={"traceparent": PARENT}).answer()[
            1
        ]
    if "error" in answer:
        return answer["error"]
    return json.loads(answer["result"]["content"][0]["text"]).get("_meta", {})


def span_of(told):
    """The span that a server was told of: its trace, itself, and whether it is sampled."""
    return re.fullmatch("00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])", told["traceparent"]).groups()


@pytest.mark.covers("OT-2", "OT-3", "OT-5", "OT-8")
@pytest.mark.parametrize(("era", "server"), PAIRS)
def test_a_call_is_one_trace(tmp_path, era, server):
    with collecting() as collector:
        secret = 'headers = { Authorization = "Bearer tok-31337" }'
        with running_hub(tmp_path, config(collector.url, era=server, tracing=secret)) as hub, ready(hub) as host:
            meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=alice"}
            told = call(hub, host, era, meta=meta)
            one, two = collector.await_spans(2)
            error = call(hub, host, era, "files__broken", meta)
            spans = collector.await_spans(4)
    received, sent = (one, two) if one.is_server else (two, one)
    assert (received.trace, received.parent, sent.trace, sent.parent) == (TRACE, SPAN, TRACE, received.id)
    assert span_of(told) == (TRACE, sent.id, "01")
    assert told["tracestate"] == received.state == "a=1"
    assert "baggage" not in told
    assert (received.name, sent.name) == ("tools/call files__echo", "tools/call echo")
    about = received.attributes
    assert re.fullmatch("[0-9a-f]{8}", about.pop("hubd.ref"))
    is_http = era == "modern"
    assert about == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "files__echo",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "7" if is_http else "2",
        "mcp.protocol.version": "2026-07-28" if is_http else "2025-11-25",
        "network.transport": "tcp" if is_http else "unix",
        **({"network.protocol.name": "http", "client.address": "127.0.0.1"} if is_http else {}),
        "hubd.host": about["hubd.host"],
        "hubd.cache": False,
    }
    assert received.links == ([(TRACE, SPAN)] if is_http else [])
    assert sent.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "echo",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2026-07-28" if server == "modern" else "2025-11-25",
        "network.transport": "pipe",
        "hubd.upstream": "files",
        "hubd.ref": sent.attributes["hubd.ref"],
    }
    assert received.resource["service.name"] == "hubd"
    assert 0 < sent.took_s <= received.took_s
    assert received.began <= sent.began <= sent.ended <= received.ended
    assert error["code"] == -32602
    failed = [span for span in spans if span.is_error]
    assert [each.text for each in failed] == ["no such issue"] * 2
    for key in ("error.type", "rpc.response.status_code"):
        assert [each.attributes[key] for each in failed] == ["-32602"] * 2
    assert collector.headers[0]["authorization"] == "Bearer tok-31337"
    everything = b"".join(collector.bodies)
    assert not any(each.encode() in everything for each in (CANARY, "tok-31337", hub.token, "alice"))


TWICE = """
[pipelines.twice]
description = "Twice."
input = { type = "object" }
[[pipelines.twice.steps]]
id = "one"
tool = "files__echo"
[[pipelines.twice.steps]]
id = "two"
tool = "files__echo"
args = { text = "${one.text}" }
"""


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_each_step_of_a_pipeline_is_a_call_of_the_trace_of_its_host(tmp_path, era):
    with collecting() as collector, running_hub(tmp_path, config(collector.url, more=TWICE)) as hub, ready(hub) as host:
        call(hub, host, era, "hub__twice", {"traceparent": PARENT})
        spans = collector.await_spans(4)
    received = [span for span in spans if span.is_server]
    assert [(span.name, span.trace, span.parent) for span in received] == [("tools/call files__echo", TRACE, SPAN)] * 2
    assert sorted(span.parent for span in spans if not span.is_server) == sorted(span.id for span in received)
    addresses = [span.attributes.get("client.address") for span in received]
    assert addresses == [None if era == "legacy" else "127.0.0.1"] * 2


@pytest.mark.covers("OT-2", "OT-3")
@pytest.mark.parametrize(("era", "server"), PAIRS)
def test_the_caller_decides_what_is_sampled(tmp_path, era, server):
    more = f"{upstream('deaf', {}).rstrip()}\ntrace_context = false\n"
    told_all = upstream("heard", {}).rstrip() + "\ntrace_baggage = true\n"
    with collecting() as collector:
        with running_hub(tmp_path, config(collector.url, era=server, more=more + told_all)) as hub, ready(hub) as host:
            unsampled = {"traceparent": PARENT[:-1] + "0", "tracestate": "a=1"}
            assert call(hub, host, era, meta=unsampled).items() >= unsampled.items()
            here = call(hub, host, era, id=3)
            wrong = call(hub, host, era, meta={"traceparent": PARENT.upper(), "tracestate": "a=1"}, id=4)
            meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=alice"}
            deaf = call(hub, host, era, "deaf__echo", meta, id=5)
            heard = call(hub, host, era, "heard__echo", meta, id=6)
            spans = collector.await_spans(8)
        assert len(collector.spans()) == 8
    roots = {span.trace: span for span in spans if not span.parent}
    assert roots.keys() == {span_of(here)[0], span_of(wrong)[0]}
    assert TRACE not in roots
    assert "tracestate" not in wrong
    assert not deaf.keys() & meta.keys()
    assert heard["baggage"] == "user=alice"
    assert sum(span.trace == TRACE for span in spans) == 4


@pytest.mark.covers("OT-8")
def test_what_is_recorded_of_calls_is_in_their_spans(tmp_path):
    more = upstream("open", {}).rstrip() + '\nrecord = ["arguments", "result"]\nenv = { KEY = "s3cr3t-9" }\n'
    with collecting() as collector, running_hub(tmp_path, config(collector.url, more=more)) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "open__echo", "arguments": {"a": "s3cr3t-9", "b": 1}})
        host.receive()
        spans = collector.await_spans(2)
    (received,) = [span.attributes for span in spans if span.is_server]
    assert received["gen_ai.tool.call.arguments"] == '{"a": "***", "b": 1}'
    assert '"content"' in received["gen_ai.tool.call.result"]
    assert not any(b"s3cr3t-9" in body for body in collector.bodies)


@pytest.mark.covers("OT-4")
def test_a_question_of_a_server_is_below_the_call_that_caused_it(tmp_path):
    question = {"messages": [], "maxTokens": 1}
    script = {"on": {"tools/call:curious": [["ask", "sampling/createMessage", question], ["reply_told"]]}}
    answer = {"role": "assistant", "content": {"type": "text", "text": CANARY}, "model": "m"}
    with collecting() as collector:
        text = config(collector.url, more=upstream("asking", script))
        with running_hub(tmp_path, text) as hub, Host(hub) as host:
            host.ask(0, "initialize", INITIALIZE | {"capabilities": {"sampling": {}}})
            host.receive()
            for id, meta in ((1, {"traceparent": PARENT}), (2, {"traceparent": PARENT[:-1] + "0"})):
                host.ask(id, "tools/call", {"name": "asking__curious", "arguments": {}, "_meta": meta})
                asked = host.receive()
                assert asked["method"] == "sampling/createMessage"
                host.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
                assert host.receive()["id"] == id
            spans = collector.await_spans(4)
    below = {(span.is_server, span.attributes.get("hubd.upstream")) for span in spans if span.name == asked["method"]}
    assert below == {(True, "asking"), (False, None)}
    (received,) = [span for span in spans if span.parent == SPAN]
    assert [span.parent for span in spans if span is not received] == [received.id] * 3
    assert len(spans) == 4
    assert not any(CANARY.encode() in body for body in collector.bodies)


QUESTIONS = {
    ("legacy", "legacy"): [True, False],
    ("legacy", "modern"): [True, False],
    ("modern", "legacy"): [True],
    ("modern", "modern"): [],
}
"""By eras of host and server, the spans of a question: of the server's (True), and of the hub's to the host. Between
two modern ones it is a member of results, and the rounds have the spans."""


@pytest.mark.covers("OT-4")
@pytest.mark.parametrize(("era", "server"), PAIRS)
def test_a_question_has_its_spans_in_each_pair_of_eras(tmp_path, era, server):
    asking = f"[upstreams.asking]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(SHARED), server])}\n"
    answer, meta = {"action": "decline"}, {"traceparent": PARENT, CLIENT_CAPABILITIES_KEY: {"elicitation": {}}}
    with collecting() as collector:
        text = config(collector.url, more=asking + f"era = '{server}'\n")
        with running_hub(tmp_path, text) as hub, Host(hub) as host:
            host.ask(0, "initialize", INITIALIZE | {"capabilities": {"elicitation": {}}})
            host.receive()
            if era == "legacy":
                host.ask(1, "tools/call", {"name": "asking__ask", "arguments": {}, "_meta": {"traceparent": PARENT}})
                asked = host.receive()
                host.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
                result = host.receive()["result"]
            else:
                asked = Post(hub, "asking__ask", {}, token=hub.token, meta=meta).answer()[1]["result"]
                more = {"inputResponses": dict.fromkeys(asked["inputRequests"], answer)}
                more["requestState"] = asked["requestState"]
                result = Post(hub, "asking__ask", {}, token=hub.token, meta=meta, **more).answer()[1]["result"]
            rounds, messages = (2, 2) if (era, server) == ("modern", "modern") else (1 + (era == "modern"), 1)
            messages += (era, server) == ("legacy", "modern")
            spans = collector.await_spans(rounds + messages + len(QUESTIONS[era, server]))
    assert "decline" in result["content"][0]["text"]
    received = [span for span in spans if span.parent == SPAN]
    assert [span.is_server for span in received] == [True] * rounds
    assert {span.trace for span in spans} == {TRACE}
    below = [span for span in spans if span.name == "elicitation/create"]
    assert sorted((span.is_server for span in below), reverse=True) == QUESTIONS[era, server]
    sent = [span for span in spans if span.name == "tools/call ask"]
    assert [span.is_server for span in sent] == [False] * messages
    assert {span.parent for span in (*below, *sent)} <= {span.id for span in received}
    assert len({span.parent for span in below}) <= 1


@pytest.mark.covers("OT-3")
def test_parallel_calls_share_no_span(tmp_path):
    with collecting() as collector, running_hub(tmp_path, config(collector.url)) as hub, ready(hub) as host:
        for id in range(50):
            params = {"name": "files__echo", "arguments": {}, "_meta": {"traceparent": PARENT}}
            host.ask(id + 10, "tools/call", params)
        answers = [host.receive() for _ in range(50)]
        spans = collector.await_spans(100)
    told = [span_of(json.loads(each["result"]["content"][0]["text"])["_meta"])[1] for each in answers]
    assert len(set(told)) == 50
    assert set(told) == {span.id for span in spans if not span.is_server}
    assert len({span.id for span in spans}) == 100


@pytest.mark.covers("OT-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_hosts_send_passes_while_nothing_is_traced(tmp_path, era):
    more = upstream("deaf", {}).rstrip() + "\ntrace_context = false\n"
    off = config("", more=more).replace("enabled = true", "enabled = false")
    meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=alice"}
    with running_hub(tmp_path, off) as hub, ready(hub) as host:
        assert call(hub, host, era, meta=meta).items() >= meta.items()
        assert not call(hub, host, era, "deaf__echo", meta, id=3).keys() & meta.keys()
        assert not call(hub, host, era, meta=meta | {"traceparent": "00-a", "baggage": ""}, id=4).keys() & meta.keys()


@pytest.mark.covers("OT-6")
@pytest.mark.parametrize("mode", ["hang", "refuse", "slow", "gone"])
def test_no_call_waits_for_a_collector(tmp_path, mode):
    with collecting(mode) as collector:
        url = f"http://127.0.0.1:{free_port()}" if mode == "gone" else collector.url
        with running_hub(tmp_path, config(url)) as hub, ready(hub) as host:
            for id in range(100):
                call(hub, host, "legacy", id=id + 10)
            if mode != "gone":
                collector.await_requests(1)
            began = time.perf_counter()
            for id in range(100):
                call(hub, host, "legacy", id=id + 200)
            took_s = time.perf_counter() - began
            hub.process.signalled(15)
            began = time.perf_counter()
            assert hub.process.exit_code() == 0
            stopped_s = time.perf_counter() - began
        log = hub.process.log.read_text()
    assert took_s < 30, "a hundred calls take a fraction of a second, those that waited for a slow one 100 s"
    assert stopped_s < 20
    assert log.count("spans do not reach the collector") <= 1


@pytest.mark.covers("OT-6")
def test_a_collector_that_dies_half_way_delays_no_call_and_what_it_lacks_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
    with collecting() as collector, running_hub(tmp_path, config(collector.url)) as hub, ready(hub) as host:
        for id in range(20):
            call(hub, host, "legacy", id=id + 10)
        assert len(collector.await_spans(40)) == 40
        assert dropped_of(hub) == 0
        collector.server.shutdown()
        collector.server.server_close()
        for id in range(20):
            assert "traceparent" in call(hub, host, "legacy", id=id + 100)
        while dropped_of(hub) < 40:
            pass
        assert dropped_of(hub) == 40


def dropped_of(hub):
    """Spans that no collector has got, as the metrics tell."""
    return int(re.search(r'^hubd_dropped_total{what="span"} (\d+)$', said(hub, "metrics"), re.M)[1])


@pytest.mark.covers("OT-6")
def test_what_does_not_fit_is_counted(monkeypatch):
    from hub.telemetry import span_export
    from hub.telemetry.span import Span

    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")  # so that a batch is taken when it is whole
    monkeypatch.setattr(span_export, "QUEUE", 600)
    with collecting("hang") as collector:
        export = span_export.SpanExport(TracingConfig(enabled=True, endpoint=collector.url), lambda: 1.0, "1")
        for _ in range(span_export.BATCH):
            export.add(lambda: [Span(1, 1, 0, True, "x", 0.0, {})], 1)
        collector.await_requests(1)
        for _ in range(700):
            export.add(lambda: [Span(1, 1, 0, True, "x", 0.0, {})], 1)
        assert export.dropped == 100
        collector.mode = "ok"
        collector.ended.set()
        export.close()


@pytest.mark.covers("OT-3", "OT-6")
async def test_of_a_long_task_a_collector_hears_while_it_runs(autojump_clock):
    """A host that knows no tasks waits for one, and each question how it does is a message of its own."""
    heard = []

    async def work(task):
        await trio.sleep(60)
        heard.extend(collector.await_spans(8))
        task.complete({"content": []})

    fake = TaskServer(MODERN, work)
    with collecting() as collector:
        traced = TracingConfig(enabled=True, endpoint=collector.url)
        async with a_house({"files": fake}, tracing=traced) as house:
            host = await house.host("lines", L4)
            await host.result("tools/call", {"name": "files__slow"})
            spans = collector.await_spans(2 + len(tasks_of(fake, "tasks/get")))
    (received,) = [span for span in spans if span.is_server]
    assert {span.parent for span in spans if span is not received} == {received.id}
    assert not any(span.is_server for span in heard)
    assert len(spans) > MAX_TOGETHER + 8


@pytest.mark.covers("OT-6")
def test_what_was_sent_before_it_ends_reaches_the_collector(tmp_path):
    asking = (
        f"[upstreams.asking]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(SHARED), 'modern'])}\n"
    )
    with collecting() as collector:
        on = config(collector.url, more=asking + "era = 'modern'\n")
        with running_hub(tmp_path, on) as hub, Host(hub) as host:
            host.ask(0, "initialize", INITIALIZE | {"capabilities": {"elicitation": {}}})
            host.receive()
            host.ask(1, "tools/call", {"name": "asking__ask", "arguments": {}})
            asked = host.receive()
            asked_at = time.time_ns()
            hub.config.write_text(on.replace("enabled = true", "enabled = false"))
            with ControlClient(f"{hub.env['XDG_RUNTIME_DIR']}/hubd/control.sock") as client:
                client.request(RELOAD)
            (sent,) = collector.await_spans(1)
            host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
            assert host.receive()["id"] == 1
    assert sent.name == "tools/call ask"
    assert sent.ended <= asked_at


@pytest.mark.covers("OT-4")
def test_a_question_of_a_call_that_is_cancelled_is_cancelled_too(tmp_path):
    script = {"on": {"tools/call:curious": [["ask", "sampling/createMessage", {"messages": [], "maxTokens": 1}]]}}
    with collecting() as collector:
        text = config(collector.url, more=upstream("asking", script))
        with running_hub(tmp_path, text) as hub, Host(hub) as host:
            host.ask(0, "initialize", INITIALIZE | {"capabilities": {"sampling": {}}})
            host.receive()
            host.ask(1, "tools/call", {"name": "asking__curious", "arguments": {}})
            assert host.receive()["method"] == "sampling/createMessage"
            host.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
            assert host.receive()["method"] == "notifications/cancelled"
            spans = collector.await_spans(4)
    names = ["tools/call asking__curious", "tools/call curious", *["sampling/createMessage"] * 2]
    assert sorted(span.name for span in spans) == sorted(names)
    assert {span.attributes["error.type"] for span in spans} == {"cancelled"}
    (received,) = [span for span in spans if not span.parent]
    assert {span.parent for span in spans if span is not received} == {received.id}


@pytest.mark.covers("OT-7")
def test_without_the_extra_the_hub_runs_and_says_what_to_do(monkeypatch):
    traced = HubConfig(tracing=TracingConfig(enabled=True))
    assert not list(checks.warnings_of_hub(traced))
    monkeypatch.setattr(checks, "has_spans", lambda: False)
    (warning,) = checks.warnings_of_hub(traced)
    assert "'.[otel]'" in str(warning)
    assert not list(checks.warnings_of_hub(HubConfig()))


@pytest.mark.covers("OT-5")
def test_nothing_of_it_is_loaded_while_it_is_off():
    text = "import sys, hub.daemon.serve; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.covers("OT-6")
def test_it_begins_and_ends_while_the_hub_runs(tmp_path):
    with collecting() as collector:
        on = config(collector.url)
        off = on.replace("enabled = true", "enabled = false")
        with running_hub(tmp_path, off) as hub, ready(hub) as host:
            control = f"{hub.env['XDG_RUNTIME_DIR']}/hubd/control.sock"
            for number, text in enumerate((off, on, off)):
                hub.config.write_text(text)
                with ControlClient(control) as client:
                    client.request(RELOAD)
                assert ("traceparent" in call(hub, host, "legacy", id=number + 10)) is (text is on)
            assert len(collector.await_spans(2)) == 2
