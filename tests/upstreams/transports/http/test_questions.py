"""Questions of legacy upstreams over HTTP: those on the stream of a call are that call's, and no other's."""

from typing import Any

import pytest
import trio

from hub.link.call_interface import Operation
from hub.link.hub_errors import DeadlineExceeded
from hub.wire.capabilities import capabilities_of_shared_session
from hub.wire.jsonrpc import Failure, raw
from tests.support.http_fixture import TEXT, TIMEOUTS, Ear, Fixture, log_note, note, running
from tests.support.http_peer import PeerRequest, Script, Talk
from upstreams.session_contract import CallTimeouts, SessionTerms

SHARED = SessionTerms(capabilities_of_shared_session())
ALONE = SessionTerms({**capabilities_of_shared_session(), "roots": raw({"listChanged": True})}, exclusive=True)
COMPLETION = {"ref": raw({"type": "ref/prompt", "name": "p"}), "argument": raw({"name": "a", "value": ""})}
ACCEPTED = {"action": "accept", "content": {}}


def question(id: Any = "q", method: str = "elicitation/create", **params: Any) -> dict[str, Any]:
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or form}


class Curious(Script):
    """A server whose tool asks before it answers. `answers` holds what it was answered, by the id of the question."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[Any, Any] = {}
        self.events: dict[str, trio.Event] = {}
        self.says: list[Any] = []
        """What the standing stream says once it is asked to by `speak`."""
        self.speak = trio.Event()
        self.waiting: list[str] = []
        """Names of the tools that wait for an answer."""
        self.on |= {"tools/call": self.call, "response": self.answered}

    async def call(self, request: PeerRequest, talk: Talk) -> None:
        name = request.json["params"]["name"]
        await talk.stream()
        await talk.event(question(name))
        await self.answer(name)
        await talk.event(request.result(TEXT))
        await talk.end()

    async def answer(self, id: str) -> Any:
        """Wait for the answer to question `id`."""
        self.waiting.append(id)
        await self.events.setdefault(id, trio.Event()).wait()
        return self.answers[id]

    async def answered(self, request: PeerRequest, talk: Talk) -> None:
        id = request.json["id"]
        assert id not in self.answers, "a second answer"
        self.answers[id] = request.json.get("result", request.json.get("error"))
        self.events.setdefault(id, trio.Event()).set()
        await talk.reply(status=202)

    async def listen(self, request: PeerRequest, talk: Talk) -> None:
        """The standing stream."""
        await talk.stream()
        await self.speak.wait()
        for message in self.says:
            await talk.event(message)
        await talk.hang()

    async def hang(self, request: PeerRequest, talk: Talk) -> None:
        await talk.hang()


def standing(*says: Any) -> Curious:
    """One that says this on its standing stream."""
    script = Curious()
    script.says = list(says)
    script.on |= {"GET": script.listen, "tools/call": script.hang}
    return script


async def calling(it: Fixture, nursery: trio.Nursery, ear: Ear) -> None:
    """Start a call that is not answered; return when it has arrived."""
    before = it.peer.methods().count("tools/call")

    async def call() -> None:
        await it.call(exchange=ear)

    nursery.start_soon(call)
    await it.peer.until(lambda: it.peer.methods().count("tools/call") > before)


@pytest.mark.covers("T-25", "G-4", "F-I-02")
async def test_each_call_of_a_shared_session_is_asked_its_own() -> None:
    script = Curious()
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        ears = [Ear(answer={**ACCEPTED, "content": {"who": number}}) for number in range(5)]

        async def call(number: int) -> None:
            assert await it.call(f"t{number}", exchange=ears[number]) == TEXT

        for number in range(5):
            nursery.start_soon(call, number)
    assert script.answers == {f"t{number}": {**ACCEPTED, "content": {"who": number}} for number in range(5)}
    assert [len(ear.questions) for ear in ears] == [1] * 5
    assert it.ear.events == ["asked"]
    assert (ears[0].questions[0].upstream, ears[0].questions[0].version) == ("far", "2025-11-25")


@pytest.mark.covers("P-12", "R-15")
async def test_a_call_that_waits_for_a_person_has_time(autojump_clock: trio.abc.Clock) -> None:
    script = Curious()
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        ear = Ear()
        outcome: list[Any] = []

        async def call() -> None:
            try:
                await it.call(exchange=ear, timeouts=CallTimeouts(10.0, 60.0))
            except DeadlineExceeded as error:
                outcome.append(error)

        nursery.start_soon(call)
        await ear.until(lambda: ear.questions)
        await trio.sleep(500)
        assert not outcome
        nursery.cancel_scope.cancel()


@pytest.mark.covers("F-I-01")
async def test_what_a_host_refuses_is_refused() -> None:
    script = Curious()
    async with running(script, terms=SHARED) as it:
        assert await it.call(exchange=Ear(answer=Failure(-32601, "no"))) == TEXT
    assert script.answers == {"t": {"code": -32601, "message": "no"}}


@pytest.mark.covers("R-2", "F-I-02")
async def test_what_is_asked_where_nothing_may_be_asked_is_refused() -> None:
    script = Curious()

    async def ask(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(question(request.rpc))
        await script.answer(request.rpc)
        await talk.event(request.result({"completion": {"values": []}, "tools": []}))
        await talk.end()

    script.on |= {"completion/complete": ask, "tools/list": ask}
    async with running(script, terms=SHARED) as it:
        ear = Ear(answer=ACCEPTED)
        await it.session.call(Operation("completion/complete", COMPLETION), ear, TIMEOUTS)
        await it.session.request("tools/list", {})
        assert ear.questions == []
        assert it.ear.events == ["asked", "unattributed elicitation/create"]
    assert [answer["code"] for answer in script.answers.values()] == [-32602, -32602]


@pytest.mark.covers("T-25", "F-I-02", "R-17")
async def test_the_standing_stream_of_a_shared_session_asks_nobody() -> None:
    script = standing(question())
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        ear = Ear(answer=ACCEPTED)
        await calling(it, nursery, ear)
        script.speak.set()
        assert (await script.answer("q"))["code"] == -32602
        assert ear.questions == []
        assert it.ear.events == ["asked", "unattributed elicitation/create"]
        nursery.cancel_scope.cancel()


@pytest.mark.covers("T-25", "G-4")
async def test_that_of_a_hosts_own_session_asks_in_its_newest_call() -> None:
    script = standing(log_note("hello"), question())
    async with running(script, terms=ALONE) as it, trio.open_nursery() as nursery:
        assert it.peer.methods()[-1] == "GET", "it is open before the first call"
        ears = [Ear(answer=ACCEPTED) for _ in range(2)]
        for ear in ears:
            await calling(it, nursery, ear)
        script.speak.set()
        assert await script.answer("q") == ACCEPTED
        assert [len(ear.questions) for ear in ears] == [0, 1]
        assert [len(ear.logs) for ear in ears] == [0, 1]
        assert it.ear.logs == []
        nursery.cancel_scope.cancel()


@pytest.mark.covers("C-8")
async def test_a_host_is_welcomed_over_http_too(autojump_clock: trio.abc.Clock) -> None:
    script = standing(question(method="roots/list", _meta={}))
    script.speak.set()
    async with running(script, terms=ALONE) as it:
        ear = Ear(answer={"roots": []})
        await it.session.welcome(ear)
        assert await script.answer("q") == {"roots": []}
        it.session.roots_changed()
        await it.peer.until(lambda: it.peer.methods()[-1] == "notifications/roots/list_changed")


@pytest.mark.covers("F-I-03", "P-6")
async def test_when_a_call_is_cancelled_its_question_is_withdrawn_and_refused() -> None:
    script = Curious()
    async with running(script, terms=SHARED) as it:
        ear = Ear()
        async with trio.open_nursery() as nursery:
            await calling(it, nursery, ear)
            await ear.until(lambda: ear.questions)
            nursery.cancel_scope.cancel()
        assert (await script.answer("t"))["code"] == -32602
        assert len(ear.withdrawn) == 1


@pytest.mark.covers("F-I-03")
async def test_when_a_call_ends_its_question_is_withdrawn_and_refused() -> None:
    script = Curious()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(question("t"))
        await talk.event(request.result(TEXT))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script, terms=SHARED) as it:
        ear = Ear()
        assert await it.call(exchange=ear) == TEXT
        assert (await script.answer("t"))["code"] == -32602
        assert len(ear.withdrawn) == len(ear.questions)


@pytest.mark.covers("F-I-04", "P-10")
async def test_what_the_upstream_withdraws_is_withdrawn_and_not_answered() -> None:
    script = Curious()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(question("t"))
        await ear.until(lambda: ear.questions)
        await talk.event(note("notifications/cancelled", requestId="other"))
        await talk.event(note("notifications/cancelled", requestId="t"))
        await ear.until(lambda: ear.withdrawn)
        await talk.event(request.result(TEXT))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script, terms=SHARED) as it:
        ear = Ear()
        assert await it.call(exchange=ear) == TEXT
    assert script.answers == {}


@pytest.mark.covers("F-I-06", "F-R-04")
async def test_a_session_that_is_forgotten_takes_its_questions_with_it() -> None:
    script = Curious()
    ear = Ear()
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        await calling(it, nursery, ear)
        await ear.until(lambda: ear.questions)
        script.forget()
        await it.session.request("ping", {})
        await ear.until(lambda: ear.withdrawn)
        assert script.answers == {}
        nursery.cancel_scope.cancel()


@pytest.mark.covers("I-2", "F-R-04")
async def test_a_stream_from_before_the_session_was_renewed_asks_nothing() -> None:
    """Its answer would go to the new session, where the same id may be another host's question."""
    script = Curious()
    ask = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await ask.wait()
        await talk.event(question(0))
        await talk.event(request.result(TEXT))
        await talk.end()

    script.on["tools/call"] = call
    old = Ear(answer=ACCEPTED)
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        await calling(it, nursery, old)
        script.forget()
        await it.session.request("ping", {})
        ask.set()
        await script_ends(nursery)
    assert old.questions == []
    assert script.answers == {}


async def script_ends(nursery: trio.Nursery) -> None:
    """Wait until all calls in `nursery` are over."""
    while nursery.child_tasks:
        await trio.lowlevel.checkpoint()


@pytest.mark.covers("F-I-06")
async def test_a_session_that_ends_withdraws_its_questions() -> None:
    script = Curious()
    ear = Ear()
    async with trio.open_nursery() as nursery, running(script, terms=SHARED) as it:
        await calling(it, nursery, ear)
        await ear.until(lambda: ear.questions)
        nursery.cancel_scope.cancel()
    assert len(ear.withdrawn) == 1


@pytest.mark.covers("T-31", "F-R-10", "R-15")
async def test_a_question_outlives_the_stream_it_came_on(autojump_clock: trio.abc.Clock) -> None:
    script = Curious()
    asked: PeerRequest

    async def call(request: PeerRequest, talk: Talk) -> None:
        nonlocal asked
        asked = request
        await talk.stream()
        await talk.event(b"", id="p-0", retry=2000)
        await talk.event(question("t"), id="p-1")
        await ear.until(lambda: ear.questions)
        await talk.cut()

    async def resume(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(question("t"), id="p-1")  # once more
        release.set()
        await script.answer("t")
        await talk.event(asked.result(TEXT), id="p-2")
        await talk.end()

    release = trio.Event()

    class Slow(Ear):
        async def ask(self, question: Any) -> Any:
            reply = super().ask
            if not self.questions:
                self.questions.append(question)
                self._hear()
                await release.wait()
                self.questions.clear()
            return await reply(question)

    async with running(script, terms=SHARED) as it:
        script.on |= {"tools/call": call, "GET": resume}
        ear = Slow(answer=ACCEPTED)
        assert await it.call(exchange=ear, timeouts=CallTimeouts(10.0, 60.0)) == TEXT
        assert len(ear.questions) == 1
    assert script.answers == {"t": ACCEPTED}


@pytest.mark.covers("P-1")
async def test_an_upstream_is_kept_waiting_by_progress(autojump_clock: trio.abc.Clock) -> None:
    script = Curious()
    values: list[float] = []

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(question("t", _meta={"progressToken": 7}, message="?", requestedSchema={"type": "object"}))
        await script.answer("t")

    async def progressed(request: PeerRequest, talk: Talk) -> None:
        assert request.json["params"]["progressToken"] == 7
        values.append(request.json["params"]["progress"])
        await talk.reply(status=202)

    script.on |= {"tools/call": call, "notifications/progress": progressed}
    async with running(script, terms=SHARED) as it, trio.open_nursery() as nursery:
        await calling(it, nursery, Ear())
        await it.peer.until(lambda: len(values) == 3)
        assert values == sorted(set(values))
        nursery.cancel_scope.cancel()


async def test_an_answer_is_sent_again_when_its_connection_was_dead() -> None:
    script = Curious()
    answered = script.answered

    async def close(request: PeerRequest, talk: Talk) -> None:
        script.on["response"] = answered
        await talk.cut()

    script.on["response"] = close
    async with running(script, terms=SHARED) as it:
        async with trio.open_nursery() as nursery:  # so that there are connections to be used again
            nursery.start_soon(it.session.request, "ping", {})
            nursery.start_soon(it.session.request, "ping", {})
        assert await it.call(exchange=Ear(answer=ACCEPTED)) == TEXT
    assert script.answers == {"t": ACCEPTED}


async def test_what_was_begun_at_a_page_is_done() -> None:
    script = Curious()
    script.says = [note("notifications/elicitation/complete", elicitationId="e1")]
    script.on["GET"] = script.listen
    async with running(script, terms=SHARED) as it:
        script.speak.set()
        await it.ear.until(lambda: it.ear.events == ["elicited e1"])
