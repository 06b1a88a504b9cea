"""Calls of a whole hub are written down: who, what, by which rule, and how each ended, in all four pairs of eras."""

import json
import os
import re
import threading
import time
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from config.profile_settings import Profile
from config.settings import AuditConfig, Timeouts
from hub.link.call_interface import Identity
from hub.rules.audit.files import AuditFiles, logs_in
from hub.rules.audit.reading import verify
from hub.rules.audit.writer import FLUSH_BYTES, Audit
from hub.rules.policy.judge import Judge
from hub.rules.policy.verdict import Effect, Verdict
from hub.wire.mcp import L4, MODERN
from tests.support.audit_log import all_lines, read_files
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

KEY = b"k" * 32
CURSOR = Identity("alice", "cursor")
FORM = {"elicitation": {"form": {}}}
READ_ONLY = {"readOnlyHint": True}
CANARY = "canary-9bd1"


def tool(name, **annotations):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations}


def of(answer):
    """A handler of a fake, made of one of params."""
    return lambda message, conversation: answer(message["params"], conversation)


class Log:
    """The audit log of a test."""

    def __init__(self, directory):
        self.directory = directory

    def text(self):
        return b"".join(all_lines(logs_in(self.directory).get("audit.jsonl", []))).decode()

    def all(self):
        """All records but those of pins, which notice servers that are new."""
        records = [json.loads(line) for line in self.text().splitlines()]
        return [record for record in records if record["k"] != "pin"]

    def calls(self):
        return [record for record in self.all() if record["k"] in ("begin", "end")]

    def outs(self):
        return [record.get("out", "begin") for record in self.calls()]

    def is_whole(self):
        return verify(read_files(logs_in(self.directory)["audit.jsonl"])).flaw is None


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "audit")


@asynccontextmanager
async def audited(log, fakes, *, write=None, mask=str, **config):
    """A house with an audit log, which is closed with it."""
    settings = config.pop("settings", AuditConfig())
    files = AuditFiles(log.directory, time.time, **({} if write is None else {"write": write}))  # noqa: TID251
    audit = Audit(settings, files, key=KEY, wall=time.time, mask=mask)  # noqa: TID251
    try:
        async with a_house(fakes, audit=audit, **config) as house:
            yield house
    finally:
        audit.close()


@pytest.mark.covers("AUD-01", "I-10")
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("theirs", [L4, MODERN])
async def test_each_call_has_a_pair(autojump_clock, log, carrier, version, theirs):
    fake = FakeUpstream(version=theirs, tools=["write"])
    async with audited(log, {"files": fake}) as house:
        host = await house.host(carrier, version, identity=CURSOR)
        await host.call("files__write", {"path": "a"})
        await host.names()
        await host.error("tools/call", {"name": "files__nothing", "arguments": {}})
    begin, end = log.calls()
    sent = json.loads(json.dumps({"path": "a"}, separators=(",", ":")))
    assert begin | {"t": "", "ref": "", "h": "", "def": "", "args": "", "n": 0} == {
        **{"t": "", "n": 0, "k": "begin", "ref": "", "gen": 1, "p": "alice", "host": "cursor", "up": "files"},
        **{"m": "tools/call", "name": "files__write", "def": "", "args": "", "size": begin["size"]},
        **{"by": "allow", "rule": "default", "h": ""},
    }
    assert sent == {"path": "a"}
    assert re.fullmatch("[0-9a-f]{8}", begin["ref"])
    assert re.fullmatch("[0-9a-f]{16}", begin["def"])
    assert re.fullmatch("k:[0-9a-f]{32}", begin["args"])
    assert (end["ref"], end["out"]) == (begin["ref"], "ok")
    assert end["ms"] >= 0
    assert end["size"] > 10
    assert [record["k"] for record in log.all()] == ["open", "begin", "end", "close"]
    assert log.is_whole()


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize("theirs", [L4, MODERN])
async def test_a_tool_that_fails_an_error_and_a_failure_of_the_hub(autojump_clock, log, theirs):
    fake = FakeUpstream(version=theirs, tools=["fails", "dies", "lies"])
    kind = {"resultType": "complete"} if theirs == MODERN else {}
    text = [{"type": "text", "text": '{"isError":true}'}]

    async def answer(params, conversation):
        if params["name"] == "fails":
            return {"content": [], "isError": True, **kind}
        if params["name"] == "lies":
            return {"content": text, "structuredContent": {"isError": True}, **kind}
        await conversation.close()
        return {"content": [], **kind}

    fake.on["tools/call"] = of(answer)
    async with audited(log, {"files": fake}) as house:
        host = await house.host("lines", L4)
        await host.call("files__fails")
        await host.call("files__lies")
        await host.call("files__dies")
    ends = [(record["out"], record.get("kind"), record.get("executed")) for record in log.calls() if "out" in record]
    assert ends == [("error", "tool_error", None), ("ok", None, None), ("unknown", "upstream_lost", "unknown")]


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_call_that_is_cancelled(autojump_clock, log, carrier, version):
    fake = FakeUpstream(tools=["waits"])

    async def wait(params, conversation):
        await trio.sleep_forever()

    fake.on["tools/call"] = of(wait)
    async with audited(log, {"files": fake}) as house:
        host = await house.host(carrier, version)
        question = await host.start("tools/call", {"name": "files__waits", "arguments": {}})
        await wait_all_tasks_blocked()
        await host.cancel(question)
        await wait_all_tasks_blocked()
    assert log.outs() == ["begin", "cancelled"]


@pytest.mark.covers("AUD-01")
async def test_a_call_that_the_hub_cuts_off(autojump_clock, log):
    fake = FakeUpstream(tools=["waits"])

    async def wait(params, conversation):
        await trio.sleep_forever()

    fake.on["tools/call"] = of(wait)
    async with audited(log, {"files": fake}) as house:
        host = await house.host("lines", L4)
        await host.start("tools/call", {"name": "files__waits", "arguments": {}})
        await wait_all_tasks_blocked()
        house.hub.audit.stop()
        house.hub.hosts.requests.cut_off()
        await wait_all_tasks_blocked()
    assert log.outs() == ["begin", "interrupted"]


async def _ask(params, conversation):
    asked = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
    answer = await conversation.ask("elicitation/create", asked)
    return {"content": [{"type": "text", "text": answer["result"]["action"]}]}


def _ask_in_result(params, conversation):
    if "inputResponses" in params:
        return {"resultType": "complete", "content": []}
    asked = {"mode": "form", "message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
    requests = {"q": {"method": "elicitation/create", "params": asked}}
    return {"resultType": "input_required", "inputRequests": requests, "requestState": "theirs"}


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize("theirs", [L4, MODERN])
async def test_each_round_of_a_modern_host_is_a_pair(autojump_clock, log, theirs):
    fake = FakeUpstream(version=theirs, tools=["write"])
    fake.on["tools/call"] = of(_ask if theirs == L4 else _ask_in_result)
    async with audited(log, {"files": fake}) as house:
        host = await house.host("http", MODERN, capabilities=FORM)
        host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {}}
        await host.call("files__write")
    first, asked, second, ok = log.calls()
    assert (asked["out"], ok["out"]) == ("asked", "ok")
    assert (asked["ref"], ok["ref"]) == (first["ref"], second["ref"])
    assert second["first"] == first["ref"] != second["ref"]
    assert second["since"][:18] == first["t"][:18]
    assert "first" not in first


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize("theirs", [L4, MODERN])
async def test_a_legacy_host_is_asked_within_one_pair(autojump_clock, log, theirs):
    fake = FakeUpstream(version=theirs, tools=["write"])
    fake.on["tools/call"] = of(_ask if theirs == L4 else _ask_in_result)
    async with audited(log, {"files": fake}) as house:
        host = await house.host("lines", L4, capabilities=FORM)
        host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {}}
        await host.call("files__write")
    assert log.outs() == ["begin", "ok"]


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize(("trusted", "outs"), [(True, ["ok", "begin", "ok"]), (False, ["begin", "ok", "begin", "ok"])])
async def test_what_only_reads_needs_no_beginning(autojump_clock, log, trusted, outs):
    fake = FakeUpstream(tools=[])
    fake.lists["tools"] = [tool("read", readOnlyHint=True), tool("write")]
    async with audited(log, {"files": fake}, upstreams={"files": {"trusted": trusted}}) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("files__read", {"a": 1})
        await host.call("files__write")
    assert log.outs() == outs
    if trusted:
        alone = log.calls()[0]
        assert (alone["name"], alone["host"], alone["by"], alone["sent"]) == ("files__read", "cursor", "allow", 8)
        assert alone["size"] > alone["sent"]


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize("reads", [False, True])
async def test_reads_are_written_down_where_that_is_wanted(autojump_clock, log, reads):
    entries = {"resources": [{"uri": "note://a/b", "name": "r"}], "prompts": [{"name": "p"}]}
    fake = FakeUpstream(**entries)
    fake.on["resources/read"] = of(lambda params, conversation: {"contents": [{"uri": params["uri"], "text": "x"}]})
    fake.on["prompts/get"] = of(lambda params, conversation: {"messages": []})
    async with audited(log, {"files": fake}, settings=AuditConfig(reads=reads)) as house:
        host = await house.host("lines", L4)
        [uri] = await host.names("resources")
        await host.result("resources/read", {"uri": uri})
        await host.result("prompts/get", {"name": "files__p"})
        await host.call("files__echo")
    written = [(record["m"], record["k"]) for record in log.calls() if "m" in record]
    reading = [("resources/read", "end"), ("prompts/get", "end")] if reads else []
    assert written == [*reading, ("tools/call", "begin")]


@pytest.mark.covers("AUD-05")
async def test_no_argument_no_result_and_no_query_is_written(autojump_clock, log):
    fake = FakeUpstream(resources=[{"uri": f"https://me:{CANARY}@h/x?token={CANARY}#{CANARY}", "name": "r"}])
    fake.on["tools/call"] = of(lambda params, conversation: {"content": [{"type": "text", "text": CANARY}]})
    fake.on["resources/read"] = of(lambda params, conversation: {"contents": [{"uri": params["uri"], "text": CANARY}]})
    fix = Profile(hosts=("cursor",), override={})
    async with audited(log, {"files": fake}, settings=AuditConfig(reads=True), profiles={"work": fix}) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("files__echo", {"password": CANARY})
        [uri] = await host.names("resources")
        await host.result("resources/read", {"uri": uri})
    assert CANARY not in log.text()
    read = next(record for record in log.calls() if record.get("m") == "resources/read")
    assert read["name"] == "https://h/x"


@pytest.mark.covers("AUD-05")
async def test_a_digest_has_a_key_and_is_of_what_is_sent(autojump_clock, log):
    seen = []
    fake = FakeUpstream(tools=["write"])
    fake.on["tools/call"] = of(lambda params, conversation: seen.append(params["arguments"]) or {"content": []})
    async with audited(log, {"files": fake}) as house:
        host = await house.host("lines", L4)
        for arguments in ({"a": 1}, {"a": 1}, {"a": 2}, {"text": "x" * 200_000}):
            await host.call("files__write", arguments)
    digests = [record["args"] for record in log.calls() if "args" in record]
    assert digests[0] == digests[1] != digests[2]
    sizes = [record["size"] for record in log.calls() if "args" in record]
    for each, digest, size in zip(seen, digests, sizes, strict=True):
        texts = [json.dumps(each).encode(), json.dumps(each, separators=(",", ":")).encode()]
        ours = [f"k:{sha256(KEY.ljust(64, bytes(1)) + text).hexdigest()[:32]}" for text in texts]
        assert digest in ours
        assert size in map(len, texts)


@pytest.mark.covers("AUD-05")
async def test_arguments_are_written_where_that_is_wanted(autojump_clock, log):
    fake = FakeUpstream(tools=["write"])
    more = {"files": {"arguments": "full"}}
    async with audited(log, {"files": fake, "mail": FakeUpstream()}, upstreams=more, mask=_mask) as house:
        host = await house.host("lines", L4)
        await host.call("files__write", {"path": "a", "secret": f"x {CANARY}"})
        await host.call("files__write", {"text": "x" * 70_000})
        await host.call("mail__echo", {"path": "b"})
    begins = [record for record in log.calls() if record["k"] == "begin"]
    assert [record.get("arguments") for record in begins] == [{"path": "a", "secret": "x ***"}, None, None]


def _mask(text):
    return text.replace(CANARY, "***")


@pytest.mark.covers("AUD-01")
async def test_a_meta_call_is_the_call(autojump_clock, log):
    async with audited(log, {"files": FakeUpstream(tools=["write"])}) as house:
        host = await house.host("lines", L4)
        await host.call("hub__call_tool", {"name": "files__write", "arguments": {"a": 1}})
        await host.call("hub__find_tools", {"query": "write"})
    assert log.outs() == ["begin", "ok"]
    assert log.calls()[0]["name"] == "files__write"


async def test_the_rule_is_that_of_the_judge(autojump_clock, log):
    class Careful(Judge):
        def judge_arguments(self, intent):
            return Verdict(Effect.ASK, f"hubd.toml:12 {intent.host.caller.identity.host} {intent.target.exposed}")

    async with audited(log, {"files": FakeUpstream(tools=["write"])}) as house:
        [trail] = [line.stage for line in house.hub.router.chains.outer if type(line.stage).__name__ == "AuditTrail"]
        trail.judge = Careful()
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("files__write")
    assert (log.calls()[0]["by"], log.calls()[0]["rule"]) == ("ask", "hubd.toml:12 cursor files__write")


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AUD-03")
async def test_it_is_switched_off_and_on(autojump_clock, log):
    from msgspec import structs

    async with audited(log, {"files": FakeUpstream()}) as house:
        host, hub = await house.host("lines", L4), house.hub
        await host.call("files__echo")
        for enabled in (False, True):
            config = structs.replace(hub.config, audit=AuditConfig(enabled=enabled))
            hub.apply(config)
            await host.call("files__echo")
            await hub.audit.flush()
    assert [record["k"] for record in log.all()] == [
        *("open", "begin", "end", "close", "open", "config", "begin", "end", "close")
    ]
    assert log.all()[5]["changed"] == "settings audit.enabled"
    assert log.is_whole()


@pytest.mark.covers("AUD-03")
async def test_it_is_switched_off_while_it_is_written(log):
    """What comes behind that is written before the files are closed."""
    begun, gate = threading.Event(), threading.Event()

    def write(file, data):
        if b'"what":1' in bytes(data):
            begun.set()
            gate.wait(60)
        return os.write(file, data)

    audit = Audit(AuditConfig(), AuditFiles(log.directory, float, write=write), key=KEY)
    audit.start()
    try:
        audit.note("hook", what=1)
        await trio.to_thread.run_sync(begun.wait, 60)
        audit.note("hook", what=2)
        audit.adjust(AuditConfig(enabled=False))
        gate.set()
        await audit.flush()
    finally:
        gate.set()
        audit.close()
    assert [record["k"] for record in log.all()] == ["open", "hook", "hook", "close"]


async def test_without_an_audit_log_there_is_no_stage(autojump_clock):
    async with a_house({"files": FakeUpstream()}) as house:
        chains = house.hub.router.chains
        stages = [type(step.stage).__name__ for step in chains.find("tools/call", "files").outer]
        assert "AuditTrail" not in stages
        host = await house.host("lines", L4)
        await host.call("files__echo")
        house.hub.audit.note("refuse", text="nobody writes it")
        assert not house.hub.audit.records


# --- required, and disks that are full --------------------------------------------------------------------------------

REQUIRED = AuditConfig(required=True)


@pytest.mark.covers("AUD-03", "I-10")
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_is_required_is_written_before_anything_is_sent(autojump_clock, log, carrier, version):
    seen = []
    fake = FakeUpstream(tools=["write"])

    def look(params, conversation):
        seen.append(log.outs())
        return {"content": []}

    fake.on["tools/call"] = of(look)
    async with audited(log, {"files": fake}, settings=REQUIRED) as house:
        host = await house.host(carrier, version)
        await host.call("files__write")
        await host.call("files__write")
    assert seen == [["begin"], ["begin", "ok", "begin"]]
    assert log.outs() == ["begin", "ok"] * 2


class Disk:
    """Writes while it `has_room`."""

    def __init__(self):
        self.has_room = True

    def __call__(self, file, data):
        import os

        if self.has_room:
            return os.write(file, data)
        with open("/dev/full", "wb", buffering=0) as full:
            return full.write(data)


@pytest.mark.covers("AUD-03", "F-D-05")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_cannot_be_written_is_not_run_where_that_is_required(autojump_clock, log, version):
    disk, seen = Disk(), []
    fake = FakeUpstream(tools=[])
    fake.lists["tools"] = [tool("read", readOnlyHint=True), tool("write")]
    fake.on["tools/call"] = of(lambda params, conversation: seen.append(params["name"]) or {"content": []})
    more = {"files": {"trusted": True}}
    async with audited(log, {"files": fake}, settings=REQUIRED, write=disk, upstreams=more) as house:
        host = await house.host("http", version)
        await host.call("files__write")
        disk.has_room = False
        refused = [await host.call("files__write") for _ in range(3)]
        await host.call("files__read")
        status = await house.api.status()
        assert "No space left" in status.audit.problem
        disk.has_room = True
        assert await house.hub.audit.flush()
        await host.call("files__write")
    assert seen == ["write", "read", "write"]
    for each in refused:
        assert each["isError"] is True
        assert each["content"][0]["text"].startswith("Not run: this hub writes down each call")
        facts = each["_meta"]["dev.hubd/failure"]
        assert (facts["hub"], facts["executed"], facts["retryable"]) == ("audit_unavailable", "no", True)
    kinds = [(record["k"], record.get("kind") or record.get("name") or record.get("out")) for record in log.all()]
    assert kinds == [
        *(("open", None), ("begin", "files__write"), ("end", "ok")),
        *[("refuse", "audit_unavailable")] * 3,
        *(("end", "files__read"), ("begin", "files__write"), ("end", "ok"), ("close", None)),
    ]
    assert log.is_whole()


@pytest.mark.covers("AUD-03", "F-D-05")
async def test_a_full_disk_stops_no_call_and_what_is_lost_is_counted(autojump_clock, log, monkeypatch, caplog):
    from hub.rules.audit import writer

    monkeypatch.setattr(writer, "MAX_BEHIND", 20_000)
    disk = Disk()
    async with audited(log, {"files": FakeUpstream()}, write=disk) as house:
        host = await house.host("lines", L4)
        await host.call("files__echo")
        assert await house.hub.audit.flush()
        disk.has_room = False
        for _ in range(10):
            for _ in range(10):
                await host.call("files__echo")
            assert not await house.hub.audit.flush()
        status = await house.api.status()
        assert "No space left" in status.audit.problem
        assert status.audit.lost > 0
        disk.has_room = True
        assert await house.hub.audit.flush()
        assert (await house.api.status()).audit.problem is None
        await host.call("files__echo")
    records = log.all()
    lost = sum(record["lost"] for record in records if record["k"] == "gap")
    assert lost == status.audit.lost
    assert len(log.calls()) + lost == 204
    assert log.is_whole()
    assert len([each for each in caplog.records if "cannot be written" in each.getMessage()]) == 1


@pytest.mark.covers("AUD-03")
async def test_records_that_nobody_takes_are_dropped_and_counted(autojump_clock, tmp_path):
    audit = Audit(AuditConfig(), AuditFiles(tmp_path / "audit", time.time), wall=time.time)  # noqa: TID251
    for number in range(20_000):
        audit.note("config", number=number)
    assert len(audit.records) * 340 <= (4 << 20) + FLUSH_BYTES
    lost = audit.status().lost
    assert lost == 20_000 - len(audit.records) > 0
    audit.start()
    audit.close()
    records = Log(tmp_path / "audit").all()
    assert [record["k"] for record in records[-2:]] == ["config", "close"]
    assert next(record["lost"] for record in records if record["k"] == "gap") == lost


@pytest.mark.covers("AUD-03")
async def test_a_crowd_of_large_arguments_is_bounded_and_its_end_forgotten(autojump_clock, log):
    """While the disk hangs records that hold large arguments are dropped sooner; then all is as it was before."""
    from threading import Event

    goes_on, disk = Event(), Disk()

    def write(file, data):
        assert goes_on.wait(30)
        return disk(file, data)

    more = {"files": {"arguments": "full"}}
    async with audited(log, {"files": FakeUpstream()}, write=write, upstreams=more) as house:
        host, audit = await house.host("lines", L4), house.hub.audit
        for _ in range(400):
            await host.call("files__echo", {"text": "x" * 50_000})
        assert audit.status().lost > 0
        assert len(audit.records) * 25_000 < 8 << 20
        goes_on.set()
        assert await audit.flush()
        lost = audit.status().lost
        for _ in range(300):
            await host.call("files__echo", {"text": "x" * 50_000})
            await audit.flush()
        assert audit.status().lost == lost
    assert len(log.calls()) + lost == 1400
    assert log.is_whole()


@pytest.mark.covers("AUD-03")
async def test_the_loop_waits_for_no_disk(autojump_clock, log):
    """A write that hangs holds up no call; what comes meanwhile is written after it."""
    from threading import Event

    goes_on = Event()

    def write(file, data):
        import os

        assert goes_on.wait(30)
        return os.write(file, data)

    async with audited(log, {"files": FakeUpstream()}, write=write) as house:
        host = await house.host("lines", L4)
        for _ in range(5):
            await host.call("files__echo")
        goes_on.set()
    assert log.outs() == ["begin", "ok"] * 5


@pytest.mark.covers("AUD-07")
async def test_status_and_log_show_the_head(autojump_clock, log, caplog):
    caplog.set_level("INFO")
    async with audited(log, {"files": FakeUpstream()}) as house:
        host = await house.host("lines", L4)
        for number in range(2_100):
            house.hub.audit.note("pin", number=number)
        await host.call("files__echo")
        await house.hub.audit.flush()
        found = (await house.api.status()).audit
        last = log.all()[-1]
        assert (found.records, found.head) == (last["n"], last["h"])
    said = [each.getMessage() for each in caplog.records if each.name == "hubd.audit"]
    assert len([text for text in said if re.fullmatch("audit: record [0-9]+ has the hash [0-9a-f]{64}", text)]) >= 1
    assert log.all()[-1]["h"] in said[-1]


async def test_notes_of_others_are_bounded_and_never_raise(autojump_clock, log):
    async with audited(log, {"files": FakeUpstream()}, mask=_mask) as house:
        audit = house.hub.audit
        audit.note("hook", ref=0x1C7F3A9B2, name="x" * 1_000, decision="deny", text=f"{CANARY}!", odd=object())
        audit.note("approve", id="K7F3", by="terminal", kind="x")
        await audit.flush()
    _, odd, approve, _ = log.all()
    assert odd["k"] == "hook"
    assert "unreadable" in odd
    assert (approve["k"], approve["id"], approve["kind"]) == ("approve", "K7F3", "x")


@pytest.mark.covers("AUD-01", "I-10")
@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_whatever_happens_each_begin_has_one_end(autojump_clock, log, carrier, version, required):
    """Calls that end, are cancelled, lose their server, or are there when the hub ends."""
    fake = FakeUpstream(tools=["ends", "waits", "dies"])

    async def answer(params, conversation):
        if params["name"] == "ends":
            return {"content": []}
        if params["name"] == "dies":
            await conversation.close()
        await trio.sleep_forever()

    fake.on["tools/call"] = of(answer)
    patient = {"files": {"timeouts": Timeouts(call=1e9, call_total=1e9)}}  # the clock jumps while the thread writes
    async with audited(log, {"files": fake}, settings=AuditConfig(required=required), upstreams=patient) as house:
        host = await house.host(carrier, version)
        for round in range(3):
            waiting = [await host.start("tools/call", {"name": "files__waits", "arguments": {}}) for _ in range(8)]
            for _ in range(5):
                await host.call("files__ends")
            await house.hub.audit.flush()
            for question in waiting[::2]:
                await host.cancel(question)
            if round == 1:
                await host.ask("tools/call", {"name": "files__dies", "arguments": {}})
            await wait_all_tasks_blocked()
        await house.hub.audit.flush()
        outs = log.outs()
        house.nursery.cancel_scope.cancel()
    begins = [record["ref"] for record in log.calls() if record["k"] == "begin"]
    ends = [record["ref"] for record in log.calls() if record["k"] == "end"]
    assert len(begins) == len(set(begins)) == 3 * 13 + 1
    assert sorted(begins) == sorted(ends)
    assert outs.count("cancelled") >= 12
    assert outs.count("ok") == 15
    assert "unknown" in outs
    assert log.is_whole()
