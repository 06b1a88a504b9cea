"""A peer: every answer reaches its request and no other; cancelled callers leave nothing behind."""

import json
import socket

import pytest
import trio
import trio.testing

import hub.link.peer
from hub.link.channel import ChannelClosed, OutboxFull
from hub.link.line_channel import LineChannel, LineReader
from hub.link.outbox import Outbox
from hub.link.peer import MAX_BAD_MESSAGES, MAX_QUESTIONS, MAX_UNREAD_BYTES, BadPeer, Peer, last_words
from hub.link.rate_limits import MESSAGES_PER_S, TURN, TURN_BYTES, UNIT_BYTES
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Result, raw
from tests.support.steps import counting


class Far:
    """The other end of the channel, by hand."""

    def __init__(self, stream):
        self._stream = stream
        self._reader = LineReader(stream)

    async def write(self, data):
        await self._stream.send_all(data)

    async def say(self, **message):
        await self.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    async def hear(self):
        return json.loads(await self._reader.receive())

    async def hang_up(self):
        await self._stream.aclose()


class Ends:
    """A running peer, its far end, and the requests and notifications it received."""

    def __init__(self, nursery, *, limit_bytes=1 << 20, line_bytes=10_000, streams=None, **options):
        ours, theirs = streams or trio.testing.memory_stream_pair()
        self.outbox = Outbox(ours, nursery, lambda: None, limit_bytes=limit_bytes)
        self.far = Far(theirs)
        self.told = []
        self.gate = trio.Event()
        self.last = trio.Event()
        self.over = trio.Event()
        self.end = None
        self.peer = Peer(
            LineChannel(LineReader(ours, limit_bytes=line_bytes), self.outbox),
            on_request=self.answer,
            on_notification=self.hear,
            **options,
        )
        nursery.start_soon(self.run)
        self.nursery = nursery

    async def run(self):
        try:
            await self.peer.run()
        except BadPeer as error:
            self.end = error
        else:
            self.end = "closed"
        self.over.set()

    def hear(self, notification):
        self.told.append(notification)
        if notification.method == "last":
            self.last.set()

    async def answer(self, request):
        if request.method == "wait":
            await self.gate.wait()
        if request.method == "break":
            raise ValueError("a bug")
        return Result(raw({"did": request.method}))

    def ask(self, method="m", params=None):
        """Send a request in a task of its own; its outcome will be the last item of the list."""
        outcome = []

        async def run():
            with trio.CancelScope() as scope:
                outcome.append(scope)
                try:
                    outcome.append(await self.peer.request(method, params or {}))
                except (ChannelClosed, OutboxFull, RemoteProtocolError, BadPeer) as error:
                    outcome.append(error)

        self.nursery.start_soon(run)
        return outcome


@pytest.fixture
async def ends(nursery, autojump_clock):
    return Ends(nursery, name="far")


settle = trio.testing.wait_all_tasks_blocked


@pytest.mark.covers("B-3", "B-4", "G-2")
async def test_answers_in_any_order_find_their_askers(ends):
    outcomes = [ends.ask("m", {"n": raw(number)}) for number in range(5)]
    await settle()
    asked = [await ends.far.hear() for _ in range(5)]
    assert sorted(message["id"] for message in asked) == [1, 2, 3, 4, 5]
    for message in reversed(asked):
        await ends.far.say(id=message["id"], result={"n": message["params"]["n"]})
    await settle()
    assert [outcome[-1] for outcome in outcomes] == [Result(raw({"n": number})) for number in range(5)]
    assert (len(ends.peer.waiting), ends.peer.stray_answers, ends.peer.bad_messages) == (0, 0, 0)


@pytest.mark.covers("P-13")
async def test_an_error_is_an_answer(ends):
    outcome = ends.ask()
    await settle()
    await ends.far.say(id=1, error={"code": 7, "message": "no", "data": {"a": 1}})
    await settle()
    assert outcome[-1] == Failure(7, "no", raw({"a": 1}))


@pytest.mark.covers("F-P-11", "V-28")
@pytest.mark.parametrize("id", ["1", 2, -1, None, "x"])
async def test_answers_to_nothing_asked_are_dropped_and_counted(ends, id):
    outcome = ends.ask()
    await settle()
    reply = {"error": {"code": 1, "message": "?"}} if id is None else {"result": {"wrong": True}}
    await ends.far.say(id=id, **reply)
    await settle()
    assert len(outcome) == 1
    assert ends.peer.stray_answers == 1
    await ends.far.say(id=1, result={})
    await ends.far.say(id=1, result={"again": True})
    await settle()
    assert outcome[-1] == Result(raw({}))
    assert ends.peer.stray_answers == 2


@pytest.mark.covers("P-6", "P-7", "F-P-11")
async def test_who_gives_up_tells_the_peer_and_leaves_nothing(ends):
    outcome = ends.ask()
    await settle()
    assert (await ends.far.hear())["id"] == 1
    outcome[0].cancel()
    await settle()
    cancelled = await ends.far.hear()
    assert cancelled == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert not ends.peer.waiting
    await ends.far.say(id=1, result={})
    await settle()
    assert ends.peer.stray_answers == 1


@pytest.mark.covers("P-8")
@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_handshakes_are_not_cancelled(ends, method):
    outcome = ends.ask(method)
    await settle()
    outcome[0].cancel()
    await settle()
    ends.peer.notify("end", {})
    assert [(await ends.far.hear())["method"] for _ in range(2)] == [method, "end"]


async def test_a_cancelled_caller_asks_nothing(ends):
    with trio.CancelScope() as scope:
        scope.cancel()
        await ends.peer.request("m", {})
    ends.peer.notify("end", {})
    assert (await ends.far.hear())["method"] == "end"


async def test_an_answer_that_comes_before_the_cancellation_wins(ends):
    outcome = ends.ask()
    await settle()
    await ends.far.hear()
    await ends.far.say(id=1, result={})
    with trio.testing.assert_checkpoints():
        await trio.lowlevel.checkpoint()
    await settle()
    outcome[0].cancel()
    await settle()
    assert outcome[-1] == Result(raw({}))
    assert ends.outbox.queued_bytes == 0


@pytest.mark.covers("F-P-02")
async def test_when_the_channel_closes_everyone_is_told(nursery, autojump_clock):
    ended = []
    ends = Ends(nursery, name="far", on_end=lambda: ended.append(True))
    outcomes = [ends.ask() for _ in range(3)]
    await settle()
    await ends.far.hang_up()
    await settle()
    assert all(isinstance(outcome[-1], ChannelClosed) for outcome in outcomes)
    assert ends.end == "closed"
    assert ended == [True]
    with pytest.raises(ChannelClosed):
        await ends.peer.request("late", {})
    assert ends.peer.ended


async def test_cancelling_the_reader_tells_everyone_too(autojump_clock):
    async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
        ends = Ends(nursery)
        ends.nursery = outer
        outcome = ends.ask()
        await settle()
        nursery.cancel_scope.cancel()
    assert isinstance(outcome[-1], ChannelClosed)


@pytest.mark.covers("F-P-06")
async def test_a_peer_that_does_not_read_gets_no_more(nursery, autojump_clock):
    ends = Ends(nursery, limit_bytes=1000)
    ends.ask("m", {"x": raw("x" * 800)})
    await settle()
    outcome = ends.ask("m", {"x": raw("x" * 800)})
    more = ends.ask("m", {"x": raw("x" * 800)})
    await settle()
    assert [type(each[-1]) for each in (outcome, more)].count(OutboxFull) >= 1
    ends.peer.notify("dropped", {"x": raw("x" * 800)})


# --- nonsense ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-07")
@pytest.mark.parametrize("line", [b"Server started", b"\x1b[32m50%\x1b[0m", b"[1, 2", b"[]", b'{"a":1}', b"\xff\xfe"])
async def test_lines_that_are_no_messages_are_dropped(ends, line, caplog):
    outcome = ends.ask()
    await settle()
    await ends.far.write(line + b"\n" + line + b"\n\xef\xbb\xbf" + b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    await settle()
    assert outcome[-1] == Result(raw({}))
    assert ends.peer.bad_messages == 2
    assert len(caplog.records) == 1


@pytest.mark.covers("F-P-07")
async def test_a_peer_that_speaks_nothing_but_nonsense_is_given_up(ends):
    outcome = ends.ask()
    await settle()
    for _ in range(MAX_BAD_MESSAGES - 1):
        await ends.far.write(b"nonsense\n")
    await ends.far.say(method="fine")
    for _ in range(MAX_BAD_MESSAGES - 1):
        await ends.far.write(b"nonsense\n")
    await settle()
    assert ends.end is None
    await ends.far.write(b"nonsense\n")
    await settle()
    assert isinstance(ends.end, BadPeer)
    assert isinstance(outcome[-1], BadPeer)
    assert "not messages" in str(outcome[-1])


@pytest.mark.covers("F-P-09")
async def test_a_message_that_is_too_long_ends_it(ends):
    outcome = ends.ask()
    await settle()
    answered = ends.ask()
    await settle()
    await ends.far.say(id=2, result={})
    await ends.far.write(b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 20_000)
    await settle()
    assert answered[-1] == Result(raw({}))
    assert isinstance(outcome[-1], BadPeer)
    assert "too long" in str(ends.end)


@pytest.mark.covers("F-P-10", "F-P-12")
@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","id":1,"error":"no"}',
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"result":' + "[" * 200 + "]" * 200 + "}",
        b'{"jsonrpc":"2.0","id":1,"result":"\xff"}'.decode("latin-1"),
        '{"jsonrpc":"2.0","id":1,"result":{"share":NaN}}',
        '{"jsonrpc":"2.0","id":1,"result":NaN}',
        '{"result":{"share":-Infinity},"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","result":{"a":[NaN,{}]},"id":1}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":"\x1b[0m"}}',
        '{"jsonrpc":"2.0","id":1,"result":{"a":"\x00\t"}}',
        '{"jsonrpc":"2.0","id":1,"result":{"path":"C:\\x"}}',
        '{"jsonrpc":"2.0","id":1,"result":{"path":"C:\\x"},}',
        '{"jsonrpc":"2.0","id":1,"result":{},}',
        '{"jsonrpc":"2.0","id":1,"result":{}} and more',
        '{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":7,"result":{}}',
        '{"jsonrpc":"2.0","id":7,"result":{}} {"jsonrpc":"2.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\x01"}}',
        '{ "jsonrpc" : "2.0" , "id" : 1 , "result" : { "x" : NaN } }\r',
        '{"result":"' + "\x01" * 5_000 + '","id":1}',
        '{"id":1,"result":"' + "\x01" * 5_000,
    ],
)
async def test_a_malformed_answer_fails_its_call_at_once(ends, line):
    outcome = ends.ask()
    await settle()
    other = ends.ask()
    await settle()
    await ends.far.write(line.encode("latin-1") + b"\n")
    await settle()
    assert isinstance(outcome[-1], RemoteProtocolError)
    assert len(other) == 1


@pytest.mark.covers("F-P-10")
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","result":{"id":1,"a":NaN}}',
        b'{"jsonrpc":"2.0","result":{"a":NaN,"id":1}}',
        b'{"jsonrpc":"2.0","result":[{"a":NaN},{"id":1}],"id":9}',
        b'{"jsonrpc":"2.0","id":9,"result":{"a":NaN,"x":[{"jsonrpc":"2.0","id":1,"result":{}}]}}',
        rb'{"jsonrpc":"2.0","id":9,"result":{"a":NaN,"text":"}{\"jsonrpc\":\"2.0\",\"id\":1}"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"wait","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","params":{"x":NaN},"method":"wait","id":1}',
        b'{"jsonrpc":"2.0","method":"n","params":{"x":NaN,"id":1}}',
        b'{"x":NaN,"id":1}',
        b"nonsense about id 1",
    ],
)
async def test_a_malformed_message_fails_no_call_but_its_own(ends, line):
    outcome = ends.ask()
    await settle()
    await ends.far.write(line + b"\n")
    await settle()
    assert ends.peer.bad_messages == 1
    assert len(outcome) == 1


async def test_a_malformed_request_is_answered_at_once(ends):
    await ends.far.write(b'{"jsonrpc":"2.0","id":5,"method":"wait","params":{"x":NaN}}\n')
    assert (await ends.far.hear())["error"]["code"] == -32700


async def test_a_malformed_request_with_the_id_of_ours_does_not_fail_ours(ends):
    outcome = ends.ask()
    await settle()
    await ends.far.hear()
    await ends.far.write(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}\n')
    await settle()
    assert len(outcome) == 1
    assert (await ends.far.hear())["error"]["code"] == -32602


@pytest.mark.covers("B-12")
async def test_a_batch_is_taken_apart(ends):
    outcome = ends.ask()
    await settle()
    await ends.far.write(b'[{"jsonrpc":"2.0","method":"n"},{"no":1},{"jsonrpc":"2.0","id":1,"result":{}}]\n')
    await settle()
    assert outcome[-1] == Result(raw({}))
    assert [each.method for each in ends.told] == ["n"]
    assert ends.peer.bad_messages == 1


# --- being asked ------------------------------------------------------------------------------------------------------


async def test_requests_are_answered_side_by_side(ends):
    await ends.far.say(id="a", method="wait")
    await ends.far.say(id=1, method="quick")
    await ends.far.say(id=2, method="ping")
    answers = [await ends.far.hear(), await ends.far.hear()]
    assert {answer["id"]: answer["result"] for answer in answers} == {1: {"did": "quick"}, 2: {}}
    ends.gate.set()
    assert (await ends.far.hear())["id"] == "a"


@pytest.mark.covers("P-10")
async def test_a_request_the_peer_cancels_is_not_answered(ends):
    await ends.far.say(id="a", method="wait")
    await ends.far.say(id=1, method="wait")
    await settle()
    await ends.far.say(method="notifications/cancelled", params={"requestId": "a"})
    await ends.far.say(method="notifications/cancelled", params={"requestId": "unknown"})
    await settle()
    ends.gate.set()
    assert (await ends.far.hear())["id"] == 1
    assert not ends.peer._answering
    assert not ends.told


async def test_a_failing_answer_is_an_error_for_the_peer_only(ends, caplog):
    await ends.far.say(id=1, method="break")
    assert (await ends.far.hear())["error"]["code"] == -32603
    assert "a bug" in caplog.text
    await ends.far.say(id=2, method="fine")
    assert (await ends.far.hear())["result"] == {"did": "fine"}


@pytest.mark.covers("F-P-14")
async def test_too_many_questions_at_a_time_are_refused(ends):
    for number in range(MAX_QUESTIONS):
        await ends.far.say(id=number, method="wait")
    await settle()
    await ends.far.say(id="more", method="wait")
    await ends.far.say(id=0, method="wait")
    assert [(await ends.far.hear())["id"] for _ in range(2)] == ["more", 0]
    assert ends.peer.refused_requests == 2
    ends.gate.set()
    for _ in range(MAX_QUESTIONS):
        assert "result" in await ends.far.hear()


@pytest.mark.covers("T-3", "F-P-13")
async def test_a_peer_that_may_not_ask_is_not_answered(ends):
    ends.peer.refuse_requests()
    await ends.far.say(id=1, method="ping")
    await ends.far.say(id=2, method="sampling/createMessage")
    await ends.far.write(b'{"jsonrpc":"2.0","id":3,"method":"m","params":[]}\n')
    await settle()
    assert ends.peer.refused_requests == 2
    ends.peer.notify("end", {})
    assert (await ends.far.hear())["method"] == "end"


@pytest.mark.covers("F-P-14")
async def test_a_flood_of_notifications_is_read_no_faster_than_it_should(ends, autojump_clock):
    began = trio.current_time()
    for _ in range(3 * MESSAGES_PER_S):
        await ends.far.say(method="n")
    await ends.far.say(id=1, result={})
    assert await ends.peer.request("m", {}) == Result(raw({}))
    assert len(ends.told) == 3 * MESSAGES_PER_S
    assert 1.9 < trio.current_time() - began < 2.1


FLOODS = {
    "a notification": b'{"jsonrpc":"2.0","method":"n"}\n',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":9999,"result":{}}\n',
    "a ping": b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
    "a request that is refused": b'{"jsonrpc":"2.0","id":"a","method":"wait"}\n',
    "a withdrawal": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"?"}}\n',
    "no message, among others": b'1\n{"jsonrpc":"2.0","method":"n"}\n',
    "many in one": b"[" + b",".join([b'{"jsonrpc":"2.0","method":"n"}'] * 100) + b"]\n",
    "no message in one, among others": b'[1,{"jsonrpc":"2.0","method":"n"}]\n',
}


@pytest.mark.covers("F-P-07", "F-P-14")
@pytest.mark.parametrize("line", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_anything_is_read_in_turns_and_no_faster_than_it_should(
    nursery, autojump_clock, monkeypatch, line
):
    ends = Ends(nursery)
    nursery.start_soon(drain, ends.far)
    each = line.count(b'"2.0"') + line.count(b"1\n") + line.count(b"[1,")
    began, times = trio.current_time(), 3 * MESSAGES_PER_S // each
    with counting() as steps:
        steps.count(monkeypatch, hub.link.peer.jsonrpc, "decode")
        await ends.far.write(line * times)
        await ends.far.say(method="last")
        await ends.last.wait()
    assert steps.total > 3 * MESSAGES_PER_S - 100
    assert steps.most <= 2 * TURN  # an array is read as one, too
    assert 1.8 < trio.current_time() - began < 2.2


@pytest.mark.covers("F-P-14")
@pytest.mark.parametrize("kind", ["notifications", "notifications in one", "answers in one"])
async def test_a_turn_is_over_after_so_many_bytes(nursery, autojump_clock, monkeypatch, kind):
    ends = Ends(nursery, line_bytes=8 << 20)
    says = b'"id":%d,"result":{}' if kind == "answers in one" else b'"method":"n%d"'
    parts = [b'{"jsonrpc":"2.0",%b,"x":"%b"}' % (says % number, b"x" * 30_000) for number in range(1, 101)]
    if kind == "answers in one":
        nursery.start_soon(drain, ends.far)
        for _ in parts:
            ends.ask()
        await trio.testing.wait_all_tasks_blocked()
    with counting() as steps:
        steps.count(monkeypatch, hub.link.peer.jsonrpc, "decode")
        await ends.far.write(b"\n".join(parts) + b"\n" if kind == "notifications" else b"[%b]\n" % b",".join(parts))
        await ends.far.say(method="last")
        await ends.last.wait()
    assert steps.total > 100
    assert steps.most <= TURN_BYTES // 30_000 + 3


async def test_a_peer_with_many_answers_lets_others_have_their_turn(nursery):
    """Each answer of a quick call is passed on in the step in which it is read."""
    ends, many = Ends(nursery), 10 * TURN
    with counting() as steps:
        got = []

        def take(answer):
            steps.note()
            got.append(answer)

        for id in range(1, many + 1):
            ends.peer.post(id, "any", {}, take)
        line = b'{"jsonrpc":"2.0","id":%d,"result":{}}\n'
        await ends.far.write(b"".join(line % id for id in range(1, many + 1)))
        await trio.testing.wait_all_tasks_blocked()
    assert len(got) == many
    assert steps.most <= TURN


async def drain(far):
    while True:
        await far.hear()


@pytest.mark.covers("F-P-07")
async def test_answers_to_nothing_do_not_excuse_lines_that_are_no_messages(ends, autojump_clock):
    for _ in range(2):
        await ends.far.write(b"1\n" * (MAX_BAD_MESSAGES - 100) + b'{"jsonrpc":"2.0","id":9999,"result":{}}\n')
    await ends.over.wait()
    assert isinstance(ends.end, BadPeer)
    assert ends.peer.bad_messages == MAX_BAD_MESSAGES


@pytest.mark.covers("F-P-14")
async def test_large_messages_count_for_as_many_as_they_cost(nursery, autojump_clock):
    ends = Ends(nursery, line_bytes=1 << 20)
    began = trio.current_time()
    large = b'{"jsonrpc":"2.0","method":"n","params":{"x":"%b"}}\n' % (b"x" * 40 * UNIT_BYTES)
    for _ in range(80):
        await ends.far.write(large)
    await ends.far.say(method="last")
    await ends.last.wait()
    assert trio.current_time() - began > 1.9


@pytest.mark.covers("F-P-14")
async def test_answers_that_are_waited_for_are_read_at_any_pace(ends, autojump_clock):
    began = trio.current_time()
    for _ in range(3 * MESSAGES_PER_S):
        outcome = ends.ask()
        await settle()
        await ends.far.say(id=(await ends.far.hear())["id"], result={})
        await settle()
        assert isinstance(outcome[-1], Result)
    assert trio.current_time() == began


@pytest.mark.covers("F-P-06", "F-P-14")
async def test_a_peer_that_asks_and_never_reads_gets_so_many_answers_only(nursery, autojump_clock):
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()]
    ends = Ends(nursery, limit_bytes=16 << 20, streams=streams)
    ping = b'{"jsonrpc":"2.0","id":"%b","method":"ping"}\n' % (b"x" * 200)
    nursery.start_soon(ends.far.write, ping * 50_000)
    with trio.move_on_after(29):  # the outbox gives it up after 30 s without a byte taken
        await trio.sleep_forever()
    assert 0 < ends.outbox.queued_bytes <= MAX_UNREAD_BYTES + 5000
    assert ends.peer.refused_requests > 10_000, "it is read all the same"
    nursery.cancel_scope.cancel()
    for stream in streams:
        stream.socket.close()


@pytest.mark.covers("F-P-06")
async def test_a_peer_that_asks_something_before_it_reads_much_is_heard(nursery, autojump_clock):
    """A peer works on one call while another is queued for it: neither waits for the other."""
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()]
    ends = Ends(nursery, limit_bytes=16 << 20, streams=streams)
    outcome = ends.ask()
    await settle()
    ends.peer.notify("much", {"text": raw("x" * (8 << 20))})
    assert ends.outbox.queued_bytes > MAX_UNREAD_BYTES
    await ends.far.say(id="mine", method="ping")
    await ends.far.say(id=1, result={})
    await trio.sleep(1)
    assert outcome[1:] == [Result(raw({}))]
    nursery.cancel_scope.cancel()
    for stream in streams:
        stream.socket.close()


async def test_last_words_are_bounded(autojump_clock):
    with trio.CancelScope() as scope:
        scope.cancel()
        with last_words(2):
            await trio.sleep(1)
        assert trio.current_time() >= 1
        with last_words(2):
            await trio.sleep_forever()
    assert trio.current_time() < 4
