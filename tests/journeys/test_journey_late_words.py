"""Late messages of an upstream about one host's call reach no other host, however the call ended."""

from random import Random

import pytest
import trio
import trio.testing

from config.settings import Timeouts
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L1, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house
from upstreams.questions.attribution import SUSPECT_S

DESK = Identity(ALICE.principal, "other desk")
FORM = {"type": "object", "properties": {"who": {"type": "string"}}}
SECRET = "secret-of-b"
PATIENCE_S = 20.0


class Talkative(FakeUpstream):
    """An upstream whose calls end when they are told to, and which speaks of them whenever it likes."""

    def __init__(self, version):
        super().__init__(version=version, tools=["work"])
        self.capabilities["completions"] = {}
        self.outcomes = {}
        """By marker: the event that ends the call, and how."""
        self.lines = {}
        """By marker: the conversation it came over."""
        self.on["tools/call:work"] = self.work

    async def work(self, message, conversation):
        marker = message["params"]["arguments"]["marker"]
        self.lines[marker] = conversation
        event, how = self.outcomes.setdefault(marker, (trio.Event(), ["fine"]))
        await event.wait()
        if how[0] == "error":
            return Failure(-32000, "it went wrong")
        whole = {"resultType": "complete"} if self.version == MODERN else {}
        return {**whole, "content": [{"type": "text", "text": marker}]}

    def end(self, marker, how="fine"):
        event, found = self.outcomes[marker]
        found[0] = how
        event.set()

    async def log(self, text, conversation=None):
        conversation = conversation or self.conversation
        if not conversation.over:
            await conversation.tell("notifications/message", {"level": "error", "data": text})

    async def ask(self, text, conversation=None):
        conversation = conversation or self.conversation
        if self.version != MODERN and not conversation.over:
            await conversation.ask("elicitation/create", {"message": text, "requestedSchema": FORM})

    async def say_all(self, text, nursery, conversation=None):
        """Send it in every kind of message, and let these arrive."""
        await self.log(text, conversation)
        nursery.start_soon(self.ask, text, conversation)
        await trio.testing.wait_all_tasks_blocked()


async def begin(host, marker):
    question = await host.start("tools/call", {"name": "files__work", "arguments": {"marker": marker}})
    await trio.testing.wait_all_tasks_blocked()
    return question


async def open_minded(pair, house, **options):
    """A host that subscribes to everything and supports questions."""
    host = await pair.host(house, capabilities={"elicitation": {}}, **options)
    host.on["elicitation/create"] = lambda params: {"action": "decline"}
    await host.set_level("debug")
    return host


def seen_by(host, *questions):
    """All messages to a host, as one text."""
    return str((host.heard, host.asked, [(each.heard, each.answer) for each in questions]))


async def end_as(ending, fake, house, host, question):
    """End a call of `host` in one of the ways in which calls end."""
    if ending in ("fine", "error"):
        fake.end("b", ending)
        await question.wait()
    elif ending == "cancelled":
        await host.cancel(question)
    elif ending == "timed out":
        await trio.sleep(PATIENCE_S + 1)
    else:
        await host.leave()
        await host.end()
        fake.end("b")
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("I-2", "F-I-02", "F-I-03", "F-I-12", "SEC-22")
@pytest.mark.parametrize(
    ("mode", "identity", "program"),
    [
        ("auto", DESK, "host"),
        ("shared", DESK, "host"),
        ("auto", ALICE, "other"),
        ("shared", ALICE, "other"),
        ("auto", BOB, "host"),
        ("shared", BOB, "host"),
        ("singleton", BOB, "host"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.principal} at {value.host}",
)
@pytest.mark.parametrize("ending", ["fine", "error", "cancelled", "timed out", "gone"])
async def test_however_a_call_ended_what_is_said_of_it_late_reaches_nobody_else(
    pair, autojump_clock, ending, mode, identity, program
):
    fake = Talkative(pair.upstream_version)
    config = {"session_mode": mode, "across_principals": True, "timeouts": Timeouts(call=PATIENCE_S)}
    async with pair.house({"files": fake}, upstreams={"files": config}) as (house, _), trio.open_nursery() as late:
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=identity, program=program)
        of_b = await begin(b, "b")
        if ending == "timed out":
            await end_as(ending, fake, house, b, of_b)
            of_a = await begin(a, "a")
        else:
            of_a = await begin(a, "a")
            await end_as(ending, fake, house, b, of_b)
        for after_s in (0.4, SUSPECT_S / 4):
            await trio.sleep(after_s)
            await fake.say_all(SECRET, late, fake.lines["b"])
        assert SECRET not in seen_by(a, of_a)
        fake.end("a")
        await of_a.wait()
        assert SECRET not in seen_by(a, of_a)
        late.cancel_scope.cancel()


@pytest.mark.covers("F-I-02", "F-I-12", "D-13")
@pytest.mark.parametrize("mode", ["auto", "shared", "singleton"])
async def test_one_program_of_one_person_is_one_host(pair, autojump_clock, mode):
    if not pair.to_legacy:
        return  # it asks in no other way than by its answer
    fake = Talkative(pair.upstream_version)
    async with pair.house({"files": fake}, upstreams={"files": {"session_mode": mode}}) as (house, _):
        for number in range(3):  # a window after the other, or a request after the other
            host = await open_minded(pair, house)
            question = await begin(host, f"m{number}")
            async with trio.open_nursery() as nursery:
                await fake.say_all(f"said in {number}", nursery, fake.lines[f"m{number}"])
                if not pair.from_legacy:
                    answer = (await question.wait())["result"]
                    call = {"name": "files__work", "arguments": {"marker": f"m{number}"}}
                    question = await host.start("tools/call", await host.fulfil(call, answer))
            fake.end(f"m{number}")
            assert "content" in (await question.wait())["result"]
            assert [params["data"] for params in host.of("notifications/message")] == [f"said in {number}"]
            assert [f"said in {number}" in str(asked) for asked in host.asked] == [True]
        assert house.hub.supervisor.upstreams["files"].status().unattributed == 0


@pytest.mark.covers("F-I-12", "D-13")
async def test_after_a_while_a_host_hears_again_of_its_own_calls(pair, autojump_clock):
    fake = Talkative(pair.upstream_version)
    async with pair.house({"files": fake}) as (house, _):
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=DESK)
        of_b, of_a = await begin(b, "b"), await begin(a, "a")
        fake.end("b")
        await of_b.wait()
        await trio.sleep(SUSPECT_S - 0.1)
        await fake.log("too early")
        await trio.sleep(0.2)
        await fake.log("a's own")
        fake.end("a")
        await of_a.wait()
        assert [params["data"] for params in a.of("notifications/message")] == ["a's own"]
        assert b.heard == []


@pytest.mark.covers("F-I-12", "D-13", "SEC-21")
async def test_where_each_host_has_a_session_it_hears_of_its_own_calls_beside_others(pair, autojump_clock):
    fake = Talkative(pair.upstream_version)
    async with pair.house({"files": fake}, upstreams={"files": {"session_mode": "per_host"}}) as (house, _):
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=DESK)
        of_b, of_a = await begin(b, "b"), await begin(a, "a")
        fake.end("b")
        await of_b.wait()
        await fake.log("a's own", fake.lines["a"])
        await fake.log("of b, late", fake.lines["b"])
        fake.end("a")
        await of_a.wait()
        assert [params["data"] for params in a.of("notifications/message")] == ["a's own"]
        late = ["of b, late"] if pair.from_legacy else []  # a modern host hears of its running requests only
        assert [params["data"] for params in b.of("notifications/message")] == late


@pytest.mark.covers("D-13", "F-I-02", "F-I-03")
async def test_the_first_question_of_all_may_be_a_late_one_and_is_refused(pair, autojump_clock):
    if not pair.to_legacy:
        return  # it asks in no other way than by its answer
    fake = Talkative(pair.upstream_version)
    async with pair.house({"files": fake}) as (house, _), trio.open_nursery() as late:
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=DESK)
        of_b = await begin(b, "b")
        fake.end("b")
        await of_b.wait()
        of_a = await begin(a, "a")
        await fake.say_all(SECRET, late, fake.lines["b"])
        upstream = house.hub.supervisor.upstreams["files"]
        assert upstream.status().unattributed == 1
        assert upstream.status().mode == "interactive"
        again = await begin(b, "b again")
        await trio.testing.wait_all_tasks_blocked()
        assert fake.lines["b again"] is not fake.lines["a"], "each has a session of its own from now on"
        await fake.say_all(SECRET, late, fake.lines["b"])
        assert SECRET not in seen_by(a, of_a)
        await fake.say_all("of b's own", late, fake.lines["b again"])
        fake.end("a")
        fake.end("b again")
        await trio.sleep(1)
        assert "of b's own" in seen_by(b, again)
        assert "of b's own" not in seen_by(a, of_a)
        await trio.sleep(2000)


@pytest.mark.covers("F-I-12", "I-2", "N-11")
async def test_what_one_host_subscribes_to_is_logged_to_nobody_else(pair, autojump_clock):
    fake = Talkative(pair.upstream_version)
    fake.capabilities["resources"] = {"subscribe": True}
    fake.lists["resources"] = [{"uri": "note://" + SECRET, "name": "note"}]
    method = "resources/subscribe" if pair.to_legacy else "subscriptions/listen"
    usual = fake.on.get(method)

    async def subscribe(message, conversation):
        if SECRET in str(message["params"]):
            await fake.log(f"subscribed: {message['params']}", conversation)
        return usual(message, conversation) if usual else fake.answer(message)

    fake.on[method] = subscribe
    async with pair.house({"files": fake}) as (house, _):
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=DESK)
        of_a = await begin(a, "a")
        await watch(b, f"note://{SECRET}")
        await trio.sleep(1)
        assert len(fake.conversation.of(method)) >= 1
        await fake.log(SECRET)
        fake.end("a")
        await of_a.wait()
        assert SECRET not in seen_by(a, of_a)
        await b.leave()
        await b.end()


async def watch(host, uri):
    if host.version == MODERN:
        await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    else:
        await host.ask("resources/subscribe", {"uri": uri})
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("F-I-12", "I-2", "N-11")
async def test_a_change_that_nobody_watches_is_not_told_to_the_only_watcher_beside_anothers_call(pair, autojump_clock):
    if not pair.to_legacy:
        return  # what changed is told in a subscription, or not at all
    fake = Talkative(pair.upstream_version)
    fake.capabilities["resources"] = {"subscribe": True}
    fake.lists["resources"] = [{"uri": "note://mine", "name": "note"}]
    async with pair.house({"files": fake}, upstreams={"files": {"session_mode": "shared"}}) as (house, _):
        a, b = await open_minded(pair, house), await open_minded(pair, house, identity=DESK)
        await watch(a, "note://mine")
        of_b = await begin(b, "b")

        async def changed(uri):
            await fake.conversation.tell("notifications/resources/updated", {"uri": uri})
            await trio.sleep(1)
            return [params["uri"] for params in a.of("notifications/resources/updated")]

        assert await changed(f"note://{SECRET}") == []
        fake.end("b")
        await of_b.wait()
        assert await changed(f"note://{SECRET}") == []
        assert await changed("note://mine") == ["note://mine"]
        await b.leave()
        await b.end()
        assert await changed(f"note://{SECRET}") == ["note://mine"]
        await trio.sleep(SUSPECT_S)
        assert await changed("note:mine") == ["note://mine", "note:mine"], "it is surely about what the host watches"
        await a.leave()
        await a.end()


# --- any order of things ----------------------------------------------------------------------------------------------


MOVES = ("begin", "begin", "end", "end", "cancel", "leave", "log", "log", "log", "ask", "update", "read", "wait")
PAUSES_S = (0.01, 0.4, 0.4, 5.0, SUSPECT_S - 6, SUSPECT_S + 1)


@pytest.mark.covers("I-2", "F-I-02", "F-I-03", "F-I-12", "SEC-22")
@pytest.mark.parametrize("seed", range(24))
def test_no_secret_of_one_host_reaches_another(seed):
    trio.run(_talk, Random(seed), clock=trio.testing.MockClock(autojump_threshold=0))


class Spoken:
    """A call of one host, of which its upstream may speak until some time after its end."""

    def __init__(self, host, marker, question):
        self.host = host
        self.marker = marker
        self.question = question
        self.ended_at = None

    @property
    def may_be_spoken_of(self):
        return self.ended_at is None or trio.current_time() < self.ended_at + SUSPECT_S


async def _talk(dice):
    fake = Talkative(dice.choice((L4, L4, MODERN)))
    fake.capabilities["resources"] = {"subscribe": True}
    fake.lists["resources"] = [{"uri": "note://common", "name": "note"}]
    mode = dice.choice(("auto", "shared", "shared", "singleton", "per_host"))
    config = {"files": {"session_mode": mode}}
    async with a_house({"files": fake}, upstreams=config, park_ttl_s=20.0, park_total_s=60.0) as house:
        hosts, calls, gone = [], [], set()
        for number in range(dice.choice((2, 2, 3))):
            identity = Identity(ALICE.principal, f"host{number}")
            carrier, version = dice.choice(("lines", "http")), dice.choice((L1, L4, MODERN))
            hosts.append(await house.host(carrier, version, identity=identity, capabilities={"elicitation": {}}))
            hosts[-1].on["elicitation/create"] = lambda params: {"action": "decline"}
            await hosts[-1].set_level("debug")
        async with trio.open_nursery() as late:
            for _ in range(60):
                await _move(dice, fake, hosts, calls, gone, late)
                await trio.testing.wait_all_tasks_blocked()
            for call in calls:
                if call.marker in fake.outcomes:
                    fake.end(call.marker)
            await trio.sleep(80)
            late.cancel_scope.cancel()
        for number, host in enumerate(hosts):
            seen = seen_by(host, *[call.question for call in calls if call.host is host])
            assert [each for each in range(len(hosts)) if each != number and f"secret{each}-" in seen] == []
            if host not in gone:
                await host.leave()
                await host.end()
        await trio.sleep(80)


async def _move(dice, fake, hosts, calls, gone, late):
    what, host = dice.choice(MOVES), dice.choice([each for each in hosts if each not in gone])
    running = [call for call in calls if call.ended_at is None]
    spoken_of = [call for call in calls if call.may_be_spoken_of and call.marker in fake.lines]
    if what == "wait":
        await trio.sleep(dice.choice(PAUSES_S))
    elif what == "begin":
        marker = f"secret{hosts.index(host)}-{len(calls)}"
        calls.append(Spoken(host, marker, await begin(host, marker)))
    elif what == "read":
        await host.start("resources/read", {"uri": f"note://secret{hosts.index(host)}-read"})
    elif what == "leave" and len(hosts) > len(gone) + 1 and dice.random() < 0.3:
        gone.add(host)
        await host.leave()
        await host.end()
        for call in running:
            if call.host is host:
                call.ended_at = trio.current_time()
    elif what in ("end", "cancel") and running:
        call = dice.choice(running)
        call.ended_at = trio.current_time()
        if what == "end" and call.marker in fake.outcomes:
            fake.end(call.marker, dice.choice(("fine", "error")))
        elif not call.question.done.is_set():
            await call.host.cancel(call.question)
    elif what in ("log", "ask", "update") and spoken_of:
        await _speak(dice.choice(spoken_of).marker, what, fake, late)


async def _speak(marker, what, fake, late):
    conversation = fake.lines[marker]
    if what == "log":
        await fake.log(marker, conversation)
    elif what == "ask":
        late.start_soon(fake.ask, marker, conversation)
    elif not conversation.over and fake.version != MODERN:
        await conversation.tell("notifications/resources/updated", {"uri": f"note://{marker}"})
