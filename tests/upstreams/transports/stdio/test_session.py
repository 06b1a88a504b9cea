"""Sessions with real processes that follow a script: faults of children, and the outcome of calls."""

import json
import os
import signal
import sys
from math import inf
from pathlib import Path

import pytest
import trio

from config.diff import config_key
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import Executed, HubError, Overloaded, UpstreamLost, UpstreamProtocolError, UpstreamUnavailable
from hub.link.line_channel import MAX_LINE_BYTES
from hub.link.memory_budget import Budget
from hub.wire.capabilities import capabilities_of_shared_session
from hub.wire.jsonrpc import Result, peek_str, raw
from hub.wire.mcp import L2, L4, MODERN, Kind
from tests.support.fakes import FakeHost
from upstreams.inventory.read_lists import walk
from upstreams.session_contract import COMMON, CallTimeouts, Exit, SessionSetup, SessionTerms
from upstreams.transports.probing_session import EndedInHandshake
from upstreams.transports.stdio.process import Child
from upstreams.transports.stdio.session import StdioSession

SCRIPTED = Path(__file__).parents[3] / "support" / "scripted.py"
TIMEOUTS = CallTimeouts(idle_s=300, total_s=3600)


class Running:
    """A session with a scripted process, and how it ended."""

    def __init__(self, script, *, memory=None, terms=COMMON, **config):
        self.memory = memory or Memory(None)
        argv = ("-I", "-S", str(SCRIPTED), json.dumps(script))
        self.config = UpstreamConfig(command=sys.executable, args=argv, **config)
        self.budget = Budget()
        self.session = StdioSession(SessionSetup(self.config, "up", self, self.memory, terms, self.budget, os.environ))
        self.started = False
        self.error = None
        self.ended_at = None
        self.over = trio.Event()
        self.kinds = []
        self.lines = []
        self.exits = []

    def forgotten(self): ...

    def hears(self, on): ...

    def changed(self, kinds):
        self.kinds.append(kinds)

    def log(self, params): ...

    def asked(self, method): ...

    def sandboxed(self, facts): ...

    def admit(self, question, asked): ...

    def roots_withheld(self): ...

    def note(self, text): ...

    def said(self, line, pid):
        self.lines.append((line, pid))

    def exited(self, exit):
        self.exits.append(exit)

    def unattributed(self, method): ...

    def answered(self, method, reply): ...

    def ended(self):
        self.ended_at = trio.current_time()

    async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
        def started(session):
            self.started = True
            task_status.started()

        try:
            await self.session.run(started)
        except HubError as error:
            self.error = error
            if not self.started:
                raise
        finally:
            self.over.set()

    async def call(self, name, *, host=None, **arguments):
        operation = Operation("tools/call", {"name": raw(name), "arguments": raw(arguments)})
        try:
            return await self.session.call(operation, host or FakeHost(), TIMEOUTS)
        except HubError as error:
            return error


async def running(nursery, script, **options):
    found = Running(script, **options)
    await nursery.start(found.run)
    return found


def text_of(reply):
    assert isinstance(reply, Result)
    return json.loads(bytes(reply.value))["content"][0]["text"]


async def exited(pid):
    """Wait until a process that is not ours to wait for is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with trio.fail_after(30):
        await trio.lowlevel.wait_readable(pidfd)
    os.close(pidfd)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What must be killed is killed sooner than in life."""
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 0.2)
    monkeypatch.setattr("upstreams.transports.stdio.process.TERM_GRACE_S", 0.2)


@pytest.mark.covers("V-7", "T-1")
@pytest.mark.parametrize(("script", "version"), [({}, L4), ({"version": L2}, L2), ({"era": "modern"}, MODERN)])
async def test_both_eras_over_pipes(nursery, script, version):
    up = await running(nursery, script)
    assert up.session.facts.version == version
    assert up.session.transport == "stdio"
    os.kill(up.session.pid, 0)
    assert [entry.key for entry in (await walk(up.session, Kind.TOOL)).entries] == ["echo"]
    assert json.loads(text_of(await up.call("echo", a=1)))["arguments"] == {"a": 1}
    pid = up.session.pid
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await up.over.wait()
    assert up.session.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Person(FakeHost):
    """A host whose user says yes, or only looks at the question."""

    def __init__(self, *, answers=True):
        super().__init__()
        self.answers = answers
        self.reading = trio.Event()
        self.withdrawn = False

    async def ask(self, question):
        self.reading.set()
        try:
            await trio.sleep(0 if self.answers else inf)
        except trio.Cancelled:
            self.withdrawn = True
            raise
        return Result(raw({"action": "accept", "content": {"name": peek_str(question.params["message"])}}))


FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.covers("G-4", "F-I-02")
async def test_a_process_asks_and_is_answered(nursery):
    script = {"on": {"tools/call:ask": [["ask", "elicitation/create", FORM], ["reply_told"]]}}
    up = await running(nursery, script, terms=SessionTerms(capabilities_of_shared_session()))
    told = json.loads(text_of(await up.call("ask", host=Person())))
    assert told == {"action": "accept", "content": {"name": "Name?"}}
    await up.call("echo", host=FakeHost(principal="another"))
    assert json.loads(text_of(await up.call("ask", host=Person())))["code"] == -32602
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-06")
async def test_a_process_that_dies_asks_no_more(nursery):
    script = {"on": {"tools/call:ask": [["ask", "elicitation/create", FORM], ["reply_told"]]}}
    up = await running(nursery, script, terms=SessionTerms(capabilities_of_shared_session()))
    host = Person(answers=False)
    outcome = []

    async def call():
        outcome.append(await up.call("ask", host=host))

    async with trio.open_nursery() as calls:
        calls.start_soon(call)
        await host.reading.wait()
        os.kill(up.session.pid, signal.SIGKILL)
    assert isinstance(outcome[0], UpstreamLost)
    await up.over.wait()
    assert host.withdrawn
    nursery.cancel_scope.cancel()


@pytest.mark.covers("T-10")
async def test_large_messages_pass(nursery):
    up = await running(nursery, {"on": {"tools/call:big": [["big", 3 << 20]]}})
    assert len(text_of(await up.call("big"))) == 3 << 20
    assert len(text_of(await up.call("echo", text="y" * (3 << 20)))) > 3 << 20
    nursery.cancel_scope.cancel()


# --- it does not start ------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-01")
@pytest.mark.parametrize("when", ["start", "server/discover", "initialize"])
@pytest.mark.parametrize("code", [0, 1])
async def test_a_process_that_exits_before_it_can_be_used(nursery, when, code):
    steps = [["stderr", "it hurts\n"], ["exit", code]]
    script = {"start": steps} if when == "start" else {"on": dict.fromkeys((when, "initialize"), steps)}
    with pytest.raises(EndedInHandshake) as caught:
        await running(nursery, script)
    assert str(caught.value) == f"up exited with status {code} before it could be used"
    assert caught.value.__notes__ == ["it hurts"]
    assert caught.value.executed is Executed.NO


@pytest.mark.covers("F-P-26", "V-28", "V-12")
async def test_a_process_that_dies_of_the_probe_is_started_again_without_it(nursery, tmp_path):
    record, memory = tmp_path / "record", Memory(None)
    script = {"on": {"server/discover": [["exit", 1]]}, "record": str(record)}
    up = await running(nursery, script, memory=memory)
    assert up.session.facts.version == L4
    asked = [json.loads(line)["method"] for line in record.read_text().splitlines()]
    assert asked == ["server/discover", "initialize"] or asked[2:] == ["notifications/initialized"]
    assert memory.era(config_key(up.config)) == "legacy"
    again = await running(nursery, script, memory=memory)
    assert again.session.facts.version == L4
    assert record.read_text().count("server/discover") == 1
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-P-03")
async def test_a_process_that_hangs_in_the_handshake_is_killed(nursery):
    script = {"on": {"initialize": [["stderr", "thinking\n"], ["deafen"], ["hang"]]}}
    with pytest.raises(UpstreamUnavailable) as caught:
        await running(nursery, script, timeouts=Timeouts(start=5))
    assert "within 5 seconds" in str(caught.value)
    assert caught.value.__notes__ == ["thinking"]


# --- it dies ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-02")
@pytest.mark.parametrize(
    ("steps", "how", "code", "killed"),
    [
        ([["exit", 3]], "exited with status 3", 3, None),
        ([["kill", signal.SIGSEGV.value]], "was killed by SIGSEGV", None, "SIGSEGV"),
    ],
)
async def test_a_process_that_dies_in_mid_call(nursery, steps, how, code, killed):
    up = await running(nursery, {"on": {"tools/call:die": steps}})
    pid = up.session.pid
    reply = await up.call("die")
    assert isinstance(reply, UpstreamLost)
    assert reply.executed is Executed.UNKNOWN
    await up.over.wait()
    assert str(up.error) == f"up {how}"
    assert up.exits == [Exit(pid, how, code, killed, True, ())]


@pytest.mark.covers("F-P-23", "SEC-61", "I-9")
async def test_what_it_says_is_heard_without_secrets(nursery, caplog):
    caplog.set_level("INFO")
    script = {
        "on": {"tools/call:die": [["stderr", "token is s3cret-value\nand \x1b[31m\nunfinished s3cret"], ["exit", 1]]}
    }
    up = await running(nursery, script, env={"TOKEN": Secret("s3cret-value"), "SHORT": Secret("s3cret")})
    pid = up.session.pid
    await up.call("die")
    await up.over.wait()
    assert up.lines == [("token is ***", pid), ("and \\x1b[31m", pid)]
    assert up.exits[0].said == ("token is ***", "and \\x1b[31m", "unfinished ***")
    assert "s3cret" not in caplog.text + str(up.error.__notes__)


async def test_a_process_that_was_stopped_did_not_end_by_itself(nursery, monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 30)
    up = await running(nursery, {})
    up.session.give_up("is not needed")
    await up.over.wait()
    [exit] = up.exits
    assert (exit.by_itself, exit.code) == (False, 0)
    assert exit.how == "stopped: exited with status 0"


@pytest.mark.covers("F-P-02", "F-P-20", "M-01", "I-8")
@pytest.mark.parametrize("setsid", [False, True])
async def test_death_is_noticed_though_a_grandchild_holds_the_pipes(nursery, tmp_path, monkeypatch, setsid):
    """The call is answered before anybody ends the grandchild, so nothing but the exit can have told."""
    answered_call, stop = trio.Event(), Child.stop

    async def stop_later(child):
        with trio.CancelScope(shield=True), trio.fail_after(30):
            await answered_call.wait()
        await stop(child)

    monkeypatch.setattr(Child, "stop", stop_later)
    file = tmp_path / "pid"
    answered = '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"last"}]}}\n'
    script = {"on": {"tools/call:fork": [["fork", str(file), setsid], ["raw", answered]], "tools/call:hang": []}}
    up = await running(nursery, script)
    assert text_of(await up.call("fork")) == "last"
    outcome, grandchild = [], int(file.read_text())

    async def hang():
        outcome.append(await up.call("hang"))
        os.kill(grandchild, 0)  # it still runs
        answered_call.set()

    nursery.start_soon(hang)
    await trio.testing.wait_all_tasks_blocked(0.05)
    os.kill(up.session.pid, signal.SIGKILL)
    await up.over.wait()
    assert isinstance(outcome[0], UpstreamLost)
    assert str(up.error) == "up was killed by SIGKILL"
    await exited(grandchild)


@pytest.mark.covers("F-P-02")
async def test_what_was_written_before_death_is_delivered(nursery):
    answer = '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"made it"}]}}\n'
    up = await running(nursery, {"on": {"tools/call:die": [["raw", answer], ["exit", 1]]}})
    assert text_of(await up.call("die")) == "made it"


@pytest.mark.covers("F-P-08")
async def test_half_an_answer_is_none(nursery):
    up = await running(
        nursery, {"on": {"tools/call:die": [["raw", '{"jsonrpc":"2.0","id":$id,"result":{}'], ["exit"]]}}
    )
    assert isinstance(await up.call("die"), UpstreamLost)


@pytest.mark.covers("F-P-22")
@pytest.mark.parametrize("steps", [[["serve"], ["close_stdout"]], [["close_stdin"], ["serve"]]])
async def test_a_process_that_closes_a_pipe_is_as_good_as_dead(nursery, steps):
    up = await running(nursery, {"on": {"tools/call:close": [*steps, ["deafen"], ["hang"]]}})
    pid = up.session.pid
    assert isinstance(await up.call("close"), Result)
    assert isinstance(await up.call("echo"), UpstreamLost | UpstreamUnavailable)
    await up.over.wait()
    assert "closed its input or output" in str(up.error)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.covers("F-P-21")
async def test_a_stubborn_process_ends_with_its_session(nursery):
    up = await running(nursery, {"on": {"tools/call:hang": [["deafen"], ["hang"]]}})
    pid = up.session.pid
    nursery.start_soon(up.call, "hang")
    await trio.testing.wait_all_tasks_blocked(0.05)
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await up.over.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# --- it misbehaves ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-07")
async def test_chatter_on_stdout_is_overheard(nursery):
    noise = [["raw", "Starting...\n\n\x1b[2K 50%\n"]]
    up = await running(nursery, {"start": noise, "on": {"tools/call:noisy": [*noise, ["serve"], *noise]}})
    assert json.loads(text_of(await up.call("noisy")))["name"] == "noisy"
    assert isinstance(await up.call("echo"), Result)
    assert up.session.peer.bad_messages > 2
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-P-09")
async def test_a_message_that_is_too_long_ends_the_process(nursery):
    up = await running(nursery, {"on": {"tools/call:big": [["big", MAX_LINE_BYTES]]}})
    reply = await up.call("big")
    assert isinstance(reply, UpstreamProtocolError)
    await up.over.wait()
    assert "too long" in str(up.error)


@pytest.mark.covers("F-P-06", "M-02")
async def test_a_process_that_never_reads_is_given_up(nursery, mock_clock):
    mock_clock.rate = 1
    up = await running(nursery, {"on": {"tools/call:deaf": [["deafen"], ["hang"]]}})
    outcomes = {}

    async def call(number):
        outcomes[number] = await up.call("deaf", text="x" * 65536)

    for number in range(300):
        nursery.start_soon(call, number)
    await trio.testing.wait_all_tasks_blocked(0.05)
    full = [error for error in outcomes.values() if isinstance(error, Overloaded)]
    assert 0 < len(full) == len(outcomes) < 300
    assert 1 << 20 < up.budget.used <= 16 << 20
    mock_clock.jump(31)
    await up.over.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert len(outcomes) == 300
    told = [error.executed for error in outcomes.values() if not isinstance(error, Overloaded)]
    assert told.count(Executed.NO) > 200  # never left the hub
    assert 1 <= told.count(Executed.UNKNOWN) < 40  # what a pipe holds


@pytest.mark.covers("F-P-14")
async def test_a_flood_of_notifications_delays_only_its_own_answers(nursery):
    flood = ["flood", 100_000_000, "notifications/tools/list_changed", {}]  # for as long as it is read
    up = await running(nursery, {"on": {"tools/call:flood": [flood, ["serve"]]}})
    other = await running(nursery, {})
    nursery.start_soon(up.call, "flood")
    with trio.fail_after(30):
        for _ in range(20):
            assert isinstance(await other.call("echo"), Result)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("SEC-51")
async def test_the_environment_of_a_server(nursery, monkeypatch):
    monkeypatch.setenv("HUBD_CANARY", "canary")
    up = await running(nursery, {"on": {"tools/call:env": [["environment"]]}})
    known = json.loads(text_of(await up.call("env")))
    assert "canary" not in known.values()
    assert known["HUBD_INSTANCE"]
    nursery.cancel_scope.cancel()
