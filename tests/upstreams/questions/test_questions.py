"""Questions on a stream that all calls share: the right host is asked or nobody is, and each gets one answer."""

import json

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import DeadlineExceeded, HubError
from hub.link.rate_limits import QUESTIONS_PER_MINUTE
from hub.wire.capabilities import capabilities_of_shared_session
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import L3, L4, MODERN
from tests.support.fakes import FakeHost, FakeUpstream
from upstreams.questions.questions import EARLY_S, KEEPALIVE_S, MAX_OPEN, MAX_OPEN_EACH, ROOTS_WAIT_S, STARTUP_QUIET_S
from upstreams.session_contract import CallTimeouts, SessionTerms

TIMEOUTS = CallTimeouts(idle_s=10, total_s=60)
SHARED = SessionTerms(capabilities_of_shared_session())
ALONE = SessionTerms({**capabilities_of_shared_session(), "roots": raw({"listChanged": True})}, exclusive=True)
ROOTS = {"roots": [{"uri": "file:///home"}]}
ROOM = {"messages": [], "maxTokens": 1}
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}

settle = trio.testing.wait_all_tasks_blocked


class Host(FakeHost):
    """A host that answers questions when it is let."""

    def __init__(self, answer=None, *, patience=None, **more):
        super().__init__(**more)
        self.answer = answer
        """None: it never does."""
        self.patience = patience
        """Seconds until it does."""
        self.asked = []
        self.withdrawn = 0

    async def ask(self, question):
        self.asked.append(question)
        try:
            if self.answer is None:
                await trio.sleep_forever()
            await trio.sleep(self.patience or 0)
        except trio.Cancelled:
            self.withdrawn += 1
            raise
        return self.answer if isinstance(self.answer, Failure) else Result(raw(self.answer))

    @property
    def methods(self):
        return [question.method for question in self.asked]


class Up:
    """A session with a fake, and what it said."""

    def __init__(self, terms, version):
        self.fake = FakeUpstream(version=version)
        self.fake.on["tools/call:hang"] = lambda message, to: None
        self.said = []
        self.logs = []
        config = UpstreamConfig(command="x", timeouts=Timeouts(start=20))
        self.session = self.fake.open(config, "up", self, Memory(None), terms)
        self.answers = []

    def changed(self, kinds): ...

    def forgotten(self): ...

    def hears(self, on): ...

    def updated(self, uri): ...

    def log(self, params):
        self.logs.append(params)

    def note(self, text): ...

    def asked(self, method):
        self.said.append("asked")

    def sandboxed(self, facts): ...

    def admit(self, question, asked): ...

    def answered(self, method, reply): ...

    def roots_withheld(self):
        self.said.append("roots withheld")

    def unattributed(self, method):
        self.said.append(f"unattributed {method}")

    def elicited(self, id):
        self.said.append(f"elicited {id}")

    def ended(self):
        self.said.append("ended")

    async def run(self, *, task_status):
        try:
            await self.session.run(lambda session: task_status.started())
        except HubError as error:
            self.error = error

    async def call(self, name="hang", host=None, *, method="tools/call", **params):
        named = {"name": raw(name)} if method == "tools/call" else {}
        operation = Operation(method, named | {key: raw(value) for key, value in params.items()})
        try:
            return await self.session.call(operation, host or Host(), TIMEOUTS)
        except HubError as error:
            return error

    def start(self, nursery, name="hang", host=None, **more):
        """Call in a task; the outcome will be in the list."""
        outcome = []

        async def run():
            outcome.append(await self.call(name, host, **more))

        nursery.start_soon(run)
        return outcome

    async def ask(self, method="elicitation/create", params=FORM):
        """Ask the hub; what came back."""
        response = await self.fake.conversation.ask(method, params)
        self.answers.append(response.get("result", response.get("error")))
        return self.answers[-1]

    async def refused(self, method="elicitation/create", params=FORM):
        """Ask the hub; the code of the error, which must come at once."""
        began = trio.current_time()
        answer = await self.ask(method, params)
        assert trio.current_time() == began
        return answer["code"]

    def check(self):
        """Every question had one answer at most, and all is valid."""
        assert self.fake.complaints == []


async def opened(nursery, terms=SHARED, *, version=L4):
    up = Up(terms, version)
    await nursery.start(up.run)
    return up


# --- asked ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("G-4", "P-12", "R-15")
async def test_a_host_is_asked_in_its_call_whose_time_stands_still(nursery, autojump_clock):
    up = await opened(nursery, version=L3)

    async def curious(message, to):
        await trio.sleep(8)
        answer = await up.ask()
        await trio.sleep(8)
        return {"content": [{"type": "text", "text": json.dumps(answer)}]}

    up.fake.on["tools/call:curious"] = curious
    host = Host({"action": "accept", "content": {}}, patience=5000)
    reply = await up.call("curious", host)
    assert isinstance(reply, Result), "neither the idle time nor the total is over"
    assert up.answers == [{"action": "accept", "content": {}}]
    [question] = host.asked
    assert (question.method, question.upstream, question.version) == ("elicitation/create", "up", L3)
    assert {name: json.loads(bytes(value)) for name, value in question.params.items()} == FORM
    assert up.said == ["asked"]
    up.check()
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-12", "P-11")
async def test_the_time_of_a_call_goes_on_when_its_last_question_is_answered(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host({"action": "decline"}, patience=100)
    outcome = up.start(nursery, "hang", host)
    await trio.sleep(4)
    nursery.start_soon(up.ask)
    await trio.sleep(50)
    nursery.start_soon(up.ask)
    await trio.sleep(60)
    assert len(up.answers) == 1
    await up.fake.conversation.tell("notifications/message", {"level": "info", "data": "still busy"})
    await trio.sleep(40.1)
    assert len(up.answers) == 2
    await trio.sleep(9.8)
    assert not outcome
    await trio.sleep(0.2)
    assert isinstance(outcome[0], DeadlineExceeded)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-12", "F-P-04")
async def test_an_upstream_that_waits_for_a_person_is_not_given_up_for_its_silence(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host(conversation=1)
    up.start(nursery, "hang", host)
    await settle()
    nursery.start_soon(up.ask)
    await settle()
    for _ in range(5):
        assert isinstance(await up.call("hang", Host(conversation=1)), DeadlineExceeded)
    assert "ended" not in up.said
    assert host.withdrawn == 0
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-01", "F-I-05")
@pytest.mark.parametrize("answer", [Failure(-32601, "no such thing here"), Failure(-1, "rejected by the user")])
async def test_what_a_host_refuses_is_refused_and_the_call_goes_on(nursery, autojump_clock, answer):
    up = await opened(nursery)
    up.fake.on["tools/call:curious"] = lambda message, to: _curious(up)
    assert isinstance(await up.call("curious", Host(answer)), Result)
    assert up.answers == [{"code": answer.code, "message": answer.message}]
    nursery.cancel_scope.cancel()


async def _curious(up):
    await up.ask()
    return {"content": []}


@pytest.mark.covers("F-I-01", "R-5", "C-5")
@pytest.mark.parametrize(
    ("method", "params", "terms", "code"),
    [
        ("sampling/createMessage", ROOM, SessionTerms({"elicitation": raw({})}), -32601),
        ("sampling/createMessage", {**ROOM, "tools": []}, SessionTerms({"sampling": raw({})}), -32602),
        ("elicitation/create", {**FORM, "mode": "url"}, SessionTerms({"elicitation": raw({})}), -32602),
        ("roots/list", {}, SHARED, -32601),
        ("nonsense/ask", {}, SHARED, -32601),
    ],
)
async def test_what_was_not_offered_reaches_no_host(nursery, autojump_clock, method, params, terms, code):
    up = await opened(nursery, terms)
    host = Host({})
    up.start(nursery, "hang", host)
    await settle()
    assert await up.refused(method, params) == code
    assert host.asked == []
    assert up.said == {"nonsense/ask": [], "roots/list": ["asked", "roots withheld"]}.get(method, ["asked"])
    nursery.cancel_scope.cancel()


async def test_where_hosts_may_not_be_asked_no_question_makes_a_difference(nursery, autojump_clock):
    up = await opened(nursery, SessionTerms(client_features="none"))
    up.start(nursery)
    await settle()
    assert await up.refused() == -32601
    assert up.said == []
    nursery.cancel_scope.cancel()


@pytest.mark.covers("G-11")
async def test_configured_roots_are_told_to_whoever_asks(nursery, autojump_clock):
    up = await opened(nursery, SessionTerms({"roots": raw({})}, roots=("file:///srv", "file:///tmp")))
    assert await up.ask("roots/list", {}) == {"roots": [{"uri": "file:///srv"}, {"uri": "file:///tmp"}]}
    up.session.roots_changed()
    await settle()
    assert up.fake.conversation.of("notifications/roots/list_changed") == []
    assert up.said == []
    nursery.cancel_scope.cancel()


# --- attributed, or refused -------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-02", "G-4", "R-17", "SEC-22")
async def test_between_calls_and_among_hosts_nobody_is_asked(nursery, autojump_clock):
    up = await opened(nursery)
    hosts = [Host({"action": "cancel"}, conversation=number) for number in (1, 2)]
    assert await up.refused() == -32602
    assert up.answers[-1]["message"].endswith("belongs to: none is running that may be asked")
    for host in hosts:
        up.start(nursery, "hang", host)
        await settle()
    assert await up.refused() == -32602
    assert (
        "another host may be meant, which calls up now or did within the last 60 s; repeat the call later, or "
        'set session_mode = "per_host"' in up.answers[-1]["message"]
    )
    assert [host.asked for host in hosts] == [[], []]
    assert up.said == ["asked", "unattributed elicitation/create", "unattributed elicitation/create"]
    up.check()
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-02", "SEC-22")
async def test_a_session_that_served_two_principals_is_asked_nothing_from(nursery, autojump_clock):
    up = await opened(nursery)
    up.fake.on["tools/call:curious"] = lambda message, to: _curious(up)
    alice, bob = (Host({"action": "cancel"}, principal=name) for name in ("alice", "bob"))
    await up.call("curious", alice)
    assert up.answers.pop() == {"action": "cancel"}
    await up.call("echo", bob)
    for host in (bob, alice):
        await up.call("curious", host)
        refusal = up.answers.pop()
        assert refusal["code"] == -32602
        assert 'another host may be meant; set session_mode = "per_host"' in refusal["message"]
    assert (len(alice.asked), len(bob.asked)) == (1, 0)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-02", "F-I-03")
async def test_what_a_cancelled_call_asks_late_is_not_taken_for_anothers(nursery, autojump_clock):
    up = await opened(nursery)
    with trio.move_on_after(1):
        await up.call("hang", Host())
    other = Host({"action": "accept"}, program="other")
    up.start(nursery, "hang", other)
    await settle()
    assert await up.refused() == -32602
    assert other.asked == []
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-02", "F-I-03", "G-4")
async def test_whose_a_question_is_was_decided_when_it_came(nursery, autojump_clock):
    """Question and answer of one host's call come together; another host's call begins before anybody is asked."""

    async def one_after_the_other(up, one, two):
        await up.call("both", one)
        await up.call("hang", two)

    async def both(message, to):
        question, answer = (
            json.dumps(FORM).encode(),
            b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % message["id"],
        )
        await to.write(
            b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%b}\n%b\n' % (question, answer)
        )

    for _ in range(10):  # which of the tasks goes first is left to chance
        up = await opened(nursery)
        up.fake.on["tools/call:both"] = both
        one, two = Host(), Host({"action": "accept"})
        nursery.start_soon(one_after_the_other, up, one, two)
        await settle()
        assert two.asked == []
        assert one.withdrawn == len(one.asked)
        [refusal] = [message["error"] for message in up.fake.conversation.received if "error" in message]
        assert refusal["code"] == -32602
    nursery.cancel_scope.cancel()


@pytest.mark.covers("G-4", "I-2")
async def test_one_host_alone_is_asked_in_its_newest_call_and_gets_all_logs(nursery, autojump_clock):
    up = await opened(nursery, ALONE)
    hosts = [Host({"action": "accept"}, level="debug") for _ in range(2)]
    for host in hosts:
        up.start(nursery, "hang", host)
        await settle()
    assert await up.ask() == {"action": "accept"}
    await up.fake.conversation.tell("notifications/message", {"level": "info", "data": "hello"})
    await settle()
    assert [len(host.asked) for host in hosts] == [0, 1]
    assert [len(host.sent) for host in hosts] == [0, 1]
    assert up.logs == []
    nursery.cancel_scope.cancel()


@pytest.mark.covers("X-1", "SEC-22")
async def test_a_question_of_a_task_goes_to_whoever_waits_for_the_task(nursery, autojump_clock):
    up = await opened(nursery)
    up.fake.on["tasks/result"] = lambda message, to: None
    hosts = [Host({"action": "accept"}, conversation=number) for number in (1, 2)]
    for number, host in enumerate(hosts):
        up.start(nursery, host=host, method="tasks/result", taskId=f"t{number}")
        await settle()
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t0"}}
    assert await up.ask(params={**FORM, "_meta": related}) == {"action": "accept"}
    assert [len(host.asked) for host in hosts] == [1, 0]
    nursery.cancel_scope.cancel()


# --- withdrawn --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-03")
async def test_when_its_call_ends_a_question_is_withdrawn_and_refused(nursery, autojump_clock):
    up = await opened(nursery)
    up.fake.on["tools/call:hasty"] = lambda message, to: _hasty(up, nursery)
    host = Host()
    assert isinstance(await up.call("hasty", host), Result)
    await settle()
    assert host.withdrawn == 1
    assert up.answers[0]["code"] == -32602
    up.check()
    nursery.cancel_scope.cancel()


async def _hasty(up, nursery):
    nursery.start_soon(up.ask)
    await settle()
    return {"content": []}


@pytest.mark.covers("F-I-03", "P-6")
async def test_when_its_call_is_cancelled_a_question_is_withdrawn_and_refused(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as calls:
            up.start(calls, "hang", host)
            await settle()
            nursery.start_soon(up.ask)
            nursery.start_soon(up.ask)
            await settle()
            scope.cancel()
    await settle()
    assert (len(host.asked), host.withdrawn) == (2, 2)
    assert [answer["code"] for answer in up.answers] == [-32602, -32602]
    assert len(up.fake.conversation.of("notifications/cancelled")) == 1
    up.check()
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-04", "P-10")
async def test_what_an_upstream_withdraws_is_withdrawn_and_not_answered(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host()
    outcome = up.start(nursery, "hang", host)
    await settle()
    nursery.start_soon(up.ask)
    await settle()
    await up.fake.conversation.tell("notifications/cancelled", {"requestId": "s1"})
    await settle()
    assert host.withdrawn == 1
    assert not up.answers
    assert not outcome
    await trio.sleep(9)
    assert not outcome
    await trio.sleep(2)
    assert isinstance(outcome[0], DeadlineExceeded), "its time goes on"
    nursery.cancel_scope.cancel()


async def test_what_is_withdrawn_at_once_is_not_shown(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host({"action": "accept"})
    up.start(nursery, "hang", host)
    await settle()
    await up.fake.conversation.write(
        b'{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":%b}\n'
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}\n' % json.dumps(FORM).encode()
    )
    await settle()
    assert host.asked == []
    up.check()
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-06")
async def test_when_the_upstream_dies_its_questions_are_withdrawn(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host()
    outcome = up.start(nursery, "hang", host)
    await settle()
    nursery.start_soon(up.ask)
    await settle()
    await up.fake.conversation.close()
    await settle()
    assert host.withdrawn == 1
    assert outcome
    nursery.cancel_scope.cancel()


# --- too many ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-08")
async def test_so_many_questions_wait_and_no_more(nursery, autojump_clock):
    up = await opened(nursery, ALONE)
    up.fake.on["tasks/result"] = lambda message, to: None
    for task in range(3):
        up.start(nursery, host=Host(), method="tasks/result", taskId=f"t{task}")
        await settle()
    refused = []
    for task, expected in ((0, 0), (1, 0), (2, MAX_OPEN_EACH)):
        related = {"io.modelcontextprotocol/related-task": {"taskId": f"t{task}"}}
        for _ in range(MAX_OPEN_EACH):
            nursery.start_soon(up.ask, "elicitation/create", {**FORM, "_meta": related})
        await settle()
        refused, up.answers = up.answers, []
        assert [answer["code"] for answer in refused] == [-32602] * expected
    assert 2 * MAX_OPEN_EACH == MAX_OPEN
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-08")
async def test_one_call_asks_so_much_at_a_time(nursery, autojump_clock):
    up = await opened(nursery)
    up.start(nursery, "hang", Host())
    await settle()
    for _ in range(MAX_OPEN_EACH):
        nursery.start_soon(up.ask)
    await settle()
    assert await up.refused() == -32602
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-08")
async def test_an_upstream_that_asks_endlessly_is_slowed(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host({"action": "accept"})
    up.start(nursery, "hang", host)
    await settle()
    for _ in range(int(QUESTIONS_PER_MINUTE)):
        assert await up.ask() == {"action": "accept"}
    assert await up.refused() == -32602
    await trio.sleep(1.01)
    assert await up.ask() == {"action": "accept"}
    assert await up.refused() == -32602
    assert len(host.asked) == QUESTIONS_PER_MINUTE + 1
    nursery.cancel_scope.cancel()


# --- progress of an answer --------------------------------------------------------------------------------------------


def reports(up):
    return [message["params"] for message in up.fake.conversation.of("notifications/progress")]


@pytest.mark.covers("P-1", "P-2", "G-2")
async def test_an_upstream_that_wants_to_know_is_told_that_somebody_works_on_it(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host({"action": "accept"}, patience=2 * KEEPALIVE_S + 2)
    up.start(nursery, "hang", host)
    await settle()
    nursery.start_soon(up.ask, "elicitation/create", {**FORM, "_meta": {"progressToken": "p"}})
    await trio.sleep(1)
    assert reports(up) == []
    pass_on = host.asked[0].progress
    pass_on({"progress": raw(5), "total": raw(9), "message": raw("thinking")})
    pass_on({"progress": raw(5)})
    pass_on({"progress": raw("much")})
    await settle()
    assert reports(up) == [{"progressToken": "p", "progress": 5, "total": 9, "message": "thinking"}]
    await trio.sleep(2 * KEEPALIVE_S)
    told = [report["progress"] for report in reports(up)]
    assert told == sorted(set(told))
    assert len(told) == 3
    assert told[-1] < 5.01
    await trio.sleep(2 * KEEPALIVE_S)
    assert up.answers == [{"action": "accept"}]
    assert len(reports(up)) == 3, "nothing after the answer"
    up.check()
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-1")
async def test_one_that_does_not_is_not(nursery, autojump_clock):
    up = await opened(nursery)
    host = Host({"action": "accept"}, patience=100)
    up.start(nursery, "hang", host)
    await settle()
    await up.ask()
    assert host.asked[0].progress is None
    assert reports(up) == []
    nursery.cancel_scope.cancel()


# --- before the first call, and between calls -------------------------------------------------------------------------


async def eager(nursery, terms=ALONE):
    """An upstream that asks for roots as soon as it is initialized."""
    up = Up(terms, L4)
    up.fake.on["notifications/initialized"] = lambda message, to: up.ask("roots/list", {})
    await nursery.start(up.run)
    return up


@pytest.mark.covers("C-8", "R-16")
async def test_what_is_asked_at_the_start_is_answered_before_the_first_call(nursery, autojump_clock):
    up = await eager(nursery)
    await settle()
    host = Host(ROOTS, patience=5)
    began = trio.current_time()
    await up.session.welcome(host)
    assert trio.current_time() - began == pytest.approx(5)
    await settle()
    assert up.answers == [ROOTS]
    assert host.methods == ["roots/list"]
    assert host.asked[0].version == L4
    assert up.said == ["asked"]
    up.check()
    nursery.cancel_scope.cancel()


async def test_what_is_asked_shortly_after_is_awaited_too(nursery, autojump_clock):
    up = await opened(nursery, ALONE)
    host = Host(ROOTS, patience=5)
    began = trio.current_time()
    async with trio.open_nursery() as inner:
        inner.start_soon(up.session.welcome, host)
        await trio.sleep(STARTUP_QUIET_S / 2)
        inner.start_soon(up.ask, "roots/list", {})
    assert trio.current_time() - began == pytest.approx(5 + STARTUP_QUIET_S / 2)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("terms", [ALONE, SHARED])
async def test_a_server_that_asks_nothing_holds_nobody_up(nursery, autojump_clock, terms):
    up = await opened(nursery, terms)
    began = trio.current_time()
    await up.session.welcome(Host())
    assert trio.current_time() - began == (STARTUP_QUIET_S if terms is ALONE else 0)
    await up.session.welcome(Host())
    assert trio.current_time() - began == (STARTUP_QUIET_S if terms is ALONE else 0)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-02")
async def test_a_host_that_is_not_welcomed_is_not_asked(nursery, autojump_clock):
    up = await eager(nursery)
    await trio.sleep(EARLY_S - 0.1)
    assert up.answers == []
    await trio.sleep(0.2)
    assert up.answers[0]["code"] == -32602
    assert up.said == ["asked", "unattributed roots/list"]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("I-12")
async def test_a_host_that_leaves_during_the_welcome_leaves_nothing(nursery, autojump_clock):
    up = await eager(nursery)
    host = Host()
    with trio.move_on_after(1):
        await up.session.welcome(host)
    await settle()
    assert host.withdrawn == 1
    assert up.answers[0]["code"] == -32602
    assert not up.session._questions.waits
    nursery.cancel_scope.cancel()


@pytest.mark.covers("C-8", "R-17")
async def test_later_on_only_roots_are_asked_for_outside_of_calls(nursery, autojump_clock):
    up = await opened(nursery, ALONE)
    host = Host(ROOTS)
    await up.session.welcome(host)
    assert await up.ask("roots/list", {}) == ROOTS
    assert await up.refused() == -32602
    assert host.methods == ["roots/list"]
    host.answer = None
    began = trio.current_time()
    assert (await up.ask("roots/list", {}))["code"] == -32602
    assert trio.current_time() - began == ROOTS_WAIT_S
    assert host.withdrawn == 1
    nursery.cancel_scope.cancel()


@pytest.mark.covers("C-8")
@pytest.mark.parametrize(
    ("terms", "version", "told"),
    [(ALONE, L4, 1), (SHARED, L4, 0), (SessionTerms({"roots": raw({})}, exclusive=True), L4, 0), (ALONE, MODERN, 0)],
)
async def test_that_roots_changed_is_told_where_that_was_promised(nursery, autojump_clock, terms, version, told):
    up = await opened(nursery, terms, version=version)
    await up.session.welcome(Host())
    up.session.roots_changed()
    await settle()
    assert len(up.fake.conversation.of("notifications/roots/list_changed")) == told
    up.check()
    nursery.cancel_scope.cancel()


async def test_what_was_begun_at_a_page_is_done(nursery, autojump_clock):
    up = await opened(nursery)
    await up.fake.conversation.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
    await up.fake.conversation.tell("notifications/elicitation/complete", {"elicitationId": 7})
    await settle()
    assert up.said == ["elicited e1"]
    nursery.cancel_scope.cancel()
