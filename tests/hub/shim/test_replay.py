"""What a shim remembers: lines in, lines out. Each test is a conversation over two hubs or more."""

import json

import pytest

from hub.link.hub_errors import UpstreamLost
from hub.routing.router import initialize_result
from hub.shim import replay as module
from hub.shim.replay import AT_ONCE, MAX_KEPT_BYTES, MAX_KEPT_LINE_BYTES, MAX_RUNNING, Replay
from hub.wire import mcp
from hub.wire.jsonrpc import Failure, Result, encode_notification, encode_request, encode_response, raw

UI = "notifications/resources/updated"
LISTS = ["tools", "prompts", "resources"]


def line(**members):
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"


def request(id, method, **params):
    return line(method=method, params=params, id=id)


def result(id, **value):
    return encode_response(id, Result(raw(value))) + b"\n"


def failure(id, text="no"):
    return encode_response(id, Failure(-32602, text)) + b"\n"


def messages(data):
    """What some lines say, in short."""
    assert data == b"" or data.endswith(b"\n")
    said = []
    for each in data.splitlines():
        message = json.loads(each)
        params = message.get("params", {})
        about = params.get("uri") or params.get("requestId")
        said.append((message["method"], about) if "method" in message else (message["id"], "error" in message))
    return said


INITIALIZE = request(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "h"})
INITIALIZED = line(method="notifications/initialized")
WELCOME = encode_response(1, Result(initialize_result("2025-11-25", "Hello"))) + b"\n"
CHANGED = [(f"notifications/{name}/list_changed", None) for name in LISTS]


def introduced():
    replay = Replay()
    assert replay.greeting() == replay.rest() == b""
    replay.sent(INITIALIZE)
    assert replay.on_hub_lines(WELCOME) == WELCOME
    replay.sent(INITIALIZED)
    return replay


def renewed(replay):
    """What the next hub is told after it has answered the handshake."""
    assert replay.greeting() == INITIALIZE
    assert not replay.greeted
    assert messages(replay.on_hub_lines(WELCOME)) == CHANGED
    assert replay.greeted
    told = replay.rest()
    assert told.startswith(INITIALIZED)
    return told.removeprefix(INITIALIZED)


def test_lines_of_the_hub_begin_as_the_shim_expects():
    assert encode_request(1, "x", {}).startswith(module.ANSWERS)
    assert failure(None).startswith(module.REFUSES)
    assert not encode_response(None, Failure(-32700, "")).startswith(module.REFUSES), "the host's line is no JSON"
    assert encode_notification(mcp.CANCELLED, {"requestId": raw(1)}).startswith(module.CANCELS)
    assert encode_notification(mcp.ACKNOWLEDGED, {"_meta": raw({})}).startswith(module.ACKNOWLEDGES)


def test_a_handshake_is_repeated_and_its_answer_kept_back():
    replay = introduced()
    assert replay.on_loss() == b""
    assert renewed(replay) == b""
    assert renewed(replay) == b"", "and once more"


def test_a_hub_that_refuses_or_speaks_otherwise_is_no_successor():
    for answer, expected in [
        (failure(1, "too old"), "too old"),
        (result(1, protocolVersion="2099-01-01"), "it does not speak revision 2025-11-25 of MCP any more"),
        (failure(None, "no such upstream"), "no such upstream"),
    ]:
        replay = introduced()
        replay.greeting()
        assert replay.on_hub_lines(answer) == b""
        assert replay.refusal == expected


def test_a_first_refusal_is_for_the_host_to_see():
    replay = Replay()
    replay.greeting()
    assert replay.on_hub_lines(failure(None, "too many")) == failure(None, "too many")
    assert replay.refusal == "too many"
    assert not replay.served


def test_a_host_that_is_refused_is_told_so_for_each_request():
    replay = Replay()
    replay.greeting()
    replay.sent(request(1, "tools/call"))
    assert replay.on_hub_lines(failure(None, "too many")) == b"", "each is answered once"
    said = replay.give_up(request("b", "ping") + b'{"id":3,"method":"cut')
    answers = [json.loads(each) for each in said.splitlines()]
    assert [each["id"] for each in answers] == [1, "b"]
    assert {each["error"]["message"] for each in answers} == {"The hub refused this host: too many"}
    assert replay.give_up(b"") == b"", "one answer"


@pytest.mark.covers("F-H-22")
@pytest.mark.parametrize("method", ["tools/call", "tasks/get", "tasks/cancel", "tasks/result", "unheard/of"])
def test_what_may_have_been_carried_out_is_answered_at_once(method):
    replay = introduced()
    replay.sent(request("a", method))
    error = json.loads(replay.on_loss())
    facts = UpstreamLost("").facts()
    assert facts == {"hub": "upstream_lost", "executed": "unknown", "retryable": False}
    assert (error["id"], error["error"]["code"], error["error"]["data"]) == ("a", -32603, facts)
    assert "find out before you repeat it" in error["error"]["message"]
    assert renewed(replay) == b""
    assert replay.on_loss() == b"", "one answer"


@pytest.mark.covers("F-H-22")
@pytest.mark.parametrize(
    "method",
    [
        "ping",
        "tools/list",
        "tasks/list",
        "resources/templates/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "server/discover",
        "resources/subscribe",
        "resources/unsubscribe",
    ],
)
def test_what_changes_nothing_is_sent_again_once(method):
    replay = introduced()
    asked = request(5, method, uri="a:b")
    replay.sent(asked)
    assert replay.on_loss() == b""
    assert renewed(replay) == asked
    again = json.loads(replay.on_loss())
    assert (again["id"], again["error"]["data"]["retryable"]) == (5, True)
    assert renewed(replay) == b""


def test_what_was_answered_or_cancelled_is_forgotten():
    replay = introduced()
    for id, method in enumerate(["tools/call", "ping", "tools/call", "ping"], 10):
        replay.sent(request(id, method))
    assert replay.on_hub_lines(result(10) + failure(11)) == result(10) + failure(11)
    replay.sent(line(method="notifications/cancelled", params={"requestId": 12}))
    replay.sent(line(method="notifications/cancelled", params={"requestId": 13}))
    assert replay.on_loss() == b""
    assert renewed(replay) == b""


def test_ids_are_those_of_json_not_of_bytes():
    replay = introduced()
    replay.sent(b'{"jsonrpc":"2.0","id":"\\u00e9\\"","method":"tools/call"}\n')
    replay.sent(b'{"jsonrpc":"2.0","id":"7","method":"tools/call"}\n')
    replay.on_hub_lines(result('é"') + result(7))
    assert messages(replay.on_loss()) == [("7", True)]


def test_a_handshake_that_was_not_answered_is_made_again():
    replay = Replay()
    for _ in range(3):
        replay.greeting()
        assert replay.greeted
        replay.rest()
        replay.sent(INITIALIZE)
        assert replay.on_loss() == b""
    replay.greeting()
    assert replay.rest() == INITIALIZE
    assert replay.on_hub_lines(WELCOME) == WELCOME


def test_the_level_and_subscriptions_come_back():
    replay = introduced()
    level = request(2, "logging/setLevel", level="info")
    subscribed = {uri: request(id, "resources/subscribe", uri=uri) for id, uri in enumerate(["a:1", "b:2", "c:3"], 3)}
    for each in (level, *subscribed.values()):
        replay.sent(each)
    replay.on_hub_lines(result(2) + result(3) + result(4) + failure(5))
    replay.sent(request(6, "resources/unsubscribe", uri="a:1"))
    replay.on_hub_lines(result(6))
    assert replay.on_loss() == b""
    assert renewed(replay) == level + subscribed["b:2"]
    assert replay.on_hub_lines(result(2)) == b""
    assert messages(replay.on_hub_lines(result(4))) == [(UI, "b:2")], "it may have changed meanwhile"
    assert replay.on_hub_lines(result(4)) == result(4), "only the first answer is kept back"


def test_a_subscription_that_a_new_hub_refuses_is_asked_for_again_while_it_is_wanted():
    replay = introduced()
    subscribed = [request(id, "resources/subscribe", uri=f"a:{id}") for id in (3, 4)]
    for each in subscribed:
        replay.sent(each)
    replay.on_hub_lines(result(3) + result(4))
    replay.on_loss()
    assert renewed(replay) == subscribed[1] + subscribed[0]
    assert messages(replay.on_hub_lines(failure(3) + failure(4))) == [(UI, "a:3"), (UI, "a:4")]
    assert replay.refused == ["a:3", "a:4"]
    assert replay.due() == b""
    replay.sent(request(5, "resources/unsubscribe", uri="a:4"))
    replay.retry()
    assert replay.due() == subscribed[0]
    assert messages(replay.on_hub_lines(result(3))) == [(UI, "a:3")]
    assert replay.refused == []


def test_many_subscriptions_come_back_a_few_at_a_time():
    replay = introduced()
    for id in range(100, 100 + 3 * AT_ONCE):
        replay.sent(request(id, "resources/subscribe", uri=f"a:{id}"))
        replay.on_hub_lines(result(id))
    replay.on_loss()
    waiting = [json.loads(each)["id"] for each in renewed(replay).splitlines()]
    seen = []
    while waiting:
        assert len(waiting) <= AT_ONCE
        seen.append(waiting.pop())
        replay.on_hub_lines(result(seen[-1]))
        waiting += [json.loads(each)["id"] for each in replay.due().splitlines()]
    assert sorted(seen) == list(range(100, 100 + 3 * AT_ONCE))
    assert not replay.unsubscribed


def test_a_new_handshake_of_the_host_starts_over():
    replay = introduced()
    replay.sent(request(2, "resources/subscribe", uri="a:1"))
    replay.on_hub_lines(result(2))
    replay.sent(INITIALIZE)
    replay.on_hub_lines(WELCOME)
    replay.on_loss()
    replay.greeting()
    replay.on_hub_lines(WELCOME)
    assert replay.rest() == b"", "no subscription, nor initialized before the host has said so"


@pytest.mark.covers("F-H-19")
def test_questions_of_a_lost_hub_are_withdrawn():
    replay = introduced()
    asked = b"".join(encode_request(f"hub-{n}", "elicitation/create", {}) + b"\n" for n in range(3))
    assert replay.on_hub_lines(asked) == asked
    replay.sent(line(id="hub-0", result={}))
    replay.on_hub_lines(encode_notification(mcp.CANCELLED, {"requestId": raw("hub-1")}) + b"\n")
    assert list(replay.questions) == ["hub-2"]
    assert messages(replay.on_loss()) == [("notifications/cancelled", "hub-2")]
    assert not replay.questions


# --- modern hosts -----------------------------------------------------------------------------------------------------

LISTEN = request(
    "l", "subscriptions/listen", notifications={"toolsListChanged": True, "resourceSubscriptions": ["a:1", "b:2"]}
)


def acknowledgement(**listened):
    meta = raw({mcp.SUBSCRIPTION_KEY: "l"})
    return encode_notification(mcp.ACKNOWLEDGED, {"_meta": meta, "notifications": raw(listened)}) + b"\n"


def test_a_listen_is_opened_again_and_its_host_told_of_changes():
    replay = Replay()
    replay.sent(LISTEN)
    first = acknowledgement(toolsListChanged=True, resourceSubscriptions=["a:1"])
    assert replay.on_hub_lines(first) == first
    for _ in range(3):
        assert replay.on_loss() == b""
        assert replay.greeting() == b""
        assert replay.rest() == LISTEN
        said = replay.on_hub_lines(first)
        assert messages(said) == [("notifications/tools/list_changed", None), (UI, "a:1")]
        for each in said.splitlines():
            assert json.loads(each)["params"]["_meta"] == {mcp.SUBSCRIPTION_KEY: "l"}
    assert replay.on_hub_lines(first) == first, "of another listen under this id"


# --- lists that differ, and lists that do not -------------------------------------------------------------------------

FLAGS = list(mcp.LIST_FLAGS)
PROMISE = b'{"hubd":1,"lists":{}}\n'


def digests(*values):
    """What a hub says of its tools, prompts and resources."""
    return json.dumps({"hubd": 1, "lists": dict(zip(FLAGS, values, strict=True))}).encode() + b"\n"


def shown(*values):
    """A conversation with a hub that has said these digests."""
    replay = Replay()
    assert replay.greeting() == replay.rest() == b""
    assert replay.on_hub_lines(PROMISE) == b""
    replay.sent(INITIALIZE)
    assert replay.on_hub_lines(WELCOME) == WELCOME
    replay.sent(INITIALIZED)
    assert replay.on_hub_lines(digests(*values)) == b""
    return replay


def next_hub(replay, *lines):
    """What the host hears from the next hub, when it says these lines, and the answer to the handshake where WELCOME
    is."""
    assert replay.on_loss() == b""
    assert replay.greeting() == INITIALIZE
    return messages(b"".join(map(replay.on_hub_lines, lines)))


def test_after_a_restart_the_host_hears_of_lists_that_differ():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "b", "c")) == []
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "x", "c")) == [CHANGED[1]]
    assert next_hub(replay, PROMISE, digests("a", "x", "y"), WELCOME) == [CHANGED[2]]
    assert next_hub(replay, PROMISE, digests("a", "x", "y"), WELCOME) == []


def test_what_the_hub_has_told_since_is_known():
    replay = shown("a", "b", "c")
    told = line(method="notifications/tools/list_changed")
    assert replay.on_hub_lines(told + digests("A", "b", "c")) == told
    assert next_hub(replay, PROMISE, WELCOME, digests("A", "b", "c")) == []
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "b", "c")) == [CHANGED[0]]


def test_a_hub_that_is_lost_before_its_lists_were_compared_hides_no_change():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME) == [], "it has yet to say them"
    assert next_hub(replay, PROMISE, digests("x", "b", "c")) == [], "it has yet to answer the handshake"
    assert next_hub(replay, PROMISE, WELCOME, digests("x", "b", "c")) == [CHANGED[0]]


def test_a_hub_that_says_no_digests_has_all_lists_announced():
    replay = shown("a", "b", "c")
    assert next_hub(replay, WELCOME) == CHANGED
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "b", "c")) == CHANGED, "nobody knows what it showed"
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "b", "c")) == []


def test_a_listen_hears_of_lists_that_differ():
    replay = Replay()
    replay.sent(LISTEN)
    first = acknowledgement(toolsListChanged=True, promptsListChanged=True)
    assert replay.on_hub_lines(PROMISE + first + digests("a", "b", "c")) == first
    for said, expected in [("abc", []), ("xbc", [CHANGED[0]]), ("xbz", []), ("xyz", [CHANGED[1]])]:
        for in_order in (True, False):
            assert replay.on_loss() == b""
            assert replay.greeting() == b""
            assert replay.rest() == LISTEN
            lines = [first, digests(*said)] if in_order else [digests(*said), first]
            assert messages(replay.on_hub_lines(PROMISE + b"".join(lines))) == expected
            expected = []


def says(*names):
    """A hub says that these lists have changed."""
    return b"".join(encode_notification(f"notifications/{name}/list_changed", {}) + b"\n" for name in names)


def lists(id, name):
    """A host asks for a list."""
    return request(id, f"{name}/list")


def test_what_the_hub_announces_before_it_says_what_its_lists_are_waits_too():
    """It finds out where the host works, and shows it the lists of there."""
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME, says(*LISTS), digests("a", "b", "c")) == []
    assert next_hub(replay, PROMISE, WELCOME, says(*LISTS), says("tools"), digests("x", "b", "y")) == [
        CHANGED[0],
        CHANGED[2],
    ]
    assert replay.on_hub_lines(says("tools")) == says("tools"), "and from then on it is passed on"
    assert next_hub(replay, PROMISE, says("prompts"), WELCOME, says("prompts"), digests("x", "b", "y")) == []


@pytest.mark.parametrize("again", [False, True], ids=["asked", "repeated"])
@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list"])
def test_a_host_that_asked_while_lists_were_unknown_is_told_that_they_changed(method, again):
    """It may have got those of before it was known where it works."""
    replay = shown("a", "b", "c")
    if again:
        replay.sent(request(7, method))  # which the lost hub has not answered
    assert next_hub(replay, PROMISE, WELCOME) == []
    if again:
        replay.rest()
    else:
        replay.sent(request(7, method))
    assert replay.on_hub_lines(result(7)) == result(7)
    assert messages(replay.on_hub_lines(says(*LISTS))) == [CHANGED[2]]
    assert replay.on_hub_lines(says("resources")) == says("resources"), "it may have asked again"
    assert replay.on_hub_lines(digests("a", "b", "c")) == b""
    assert next_hub(replay, PROMISE, WELCOME, digests("a", "b", "c")) == []


def test_lists_that_were_asked_for_and_did_not_change_are_those_that_are_compared():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME) == []
    replay.sent(lists(7, "tools"))
    replay.sent(lists(8, "prompts"))
    assert messages(replay.on_hub_lines(digests("a", "x", "c"))) == [CHANGED[1]]


def test_what_was_asked_of_a_hub_that_never_said_its_lists_is_unknown():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME) == []
    replay.sent(lists(7, "tools"))
    replay.on_hub_lines(result(7))
    replay.sent(request(8, "tools/call"))
    replay.on_hub_lines(result(8))
    assert next_hub(replay, PROMISE, WELCOME, says(*LISTS)) == []
    assert messages(replay.on_hub_lines(digests("a", "b", "c"))) == [CHANGED[0]]


def test_a_line_that_cannot_be_read_may_ask_for_anything():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME) == []
    replay.sent(b'{"id":7,"method":"tools/list"\n')
    assert messages(replay.on_hub_lines(says(*LISTS))) == CHANGED


def test_a_batch_may_ask_for_lists():
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME) == []
    replay.sent(b"[%b]\n" % lists(7, "prompts").strip())
    assert messages(replay.on_hub_lines(says(*LISTS))) == [CHANGED[1]]


def test_a_hub_that_is_no_successor_for_comparison_announces_at_once():
    """No digests of it, or none of the one before."""
    replay = shown("a", "b", "c")
    assert next_hub(replay, WELCOME, says(*LISTS)) == CHANGED * 2
    assert next_hub(replay, PROMISE, WELCOME, says(*LISTS)) == CHANGED * 2


@pytest.mark.parametrize("odd", [b"[]", b"7", b'{"toolsListChanged":[1]}', b'{"x":"y"}', b"null"])
def test_odd_digests_are_harmless(odd):
    replay = shown("a", "b", "c")
    assert next_hub(replay, PROMISE, WELCOME, b'{"hubd":1,"lists":' + odd + b"}\n", digests("a", "b", "c")) in (
        [],
        CHANGED,
    )


def test_a_listen_that_was_not_acknowledged_is_acknowledged_once():
    replay = Replay()
    replay.sent(LISTEN)
    replay.on_loss()
    replay.greeting()
    assert replay.rest() == LISTEN
    assert replay.on_hub_lines(acknowledgement()) == acknowledgement()


def test_a_listen_that_a_stopping_hub_ends_goes_on():
    replay = Replay()
    replay.sent(LISTEN)
    replay.on_hub_lines(acknowledgement())
    assert replay.on_hub_lines(mcp.GOODBYE + b"\n") == b""
    ended = encode_notification(mcp.CANCELLED, {"requestId": raw("l")}) + b"\n"
    assert replay.on_hub_lines(result("l") + ended) == b""
    assert replay.on_loss() == b""
    replay.greeting()
    assert replay.rest() == LISTEN


def test_a_listen_that_ends_otherwise_has_ended():
    replay = Replay()
    replay.sent(LISTEN)
    replay.on_hub_lines(acknowledgement())
    ended = encode_notification(mcp.CANCELLED, {"requestId": raw("l")}) + b"\n"
    assert replay.on_hub_lines(result("l") + ended) == result("l") + ended
    assert replay.on_loss() == b""
    replay.greeting()
    assert replay.rest() == b""


# --- limits, and lines of all kinds -----------------------------------------------------------------------------------


def test_after_a_goodbye_nothing_is_kept_for_a_hub_that_nobody_may_start():
    replay = introduced()
    for id, method in enumerate(["tools/call", "tools/list"], 10):
        replay.sent(request(id, method))
    replay.on_hub_lines(mcp.GOODBYE + b"\n")
    assert replay.stopping
    errors = [json.loads(each)["error"]["data"] for each in replay.on_loss().splitlines()]
    assert [(each["hub"], each["retryable"]) for each in errors] == [("draining", False), ("draining", True)]


def test_control_lines_never_reach_the_host():
    replay = introduced()
    assert replay.on_hub_lines(b'{"hubd":1,"news":[]}\n' + result(9) + mcp.GOODBYE + b"\n") == result(9)


def test_batches():
    replay = introduced()
    replay.sent(b"[" + b",".join(request(id, "ping").strip() for id in (5, 6, 7)) + b"]\n")
    answers = b"[" + result(5).strip() + b"," + result(7).strip() + b"]\n"
    assert replay.on_hub_lines(answers) == answers
    assert messages(replay.on_loss()) == [(6, True)]


def test_what_is_kept_is_bounded():
    replay = introduced()
    replay.sent(request(2, "prompts/get", name="x" * MAX_KEPT_LINE_BYTES))
    assert messages(replay.on_loss()) == [(2, True)]
    text = "x" * (MAX_KEPT_LINE_BYTES // 2)
    for id in range(100):
        replay.sent(request(id, "prompts/get", name=text))
    lost = [id for id, _ in messages(replay.on_loss())]
    kept = renewed(replay)
    assert MAX_KEPT_BYTES / 2 < len(kept) <= MAX_KEPT_BYTES
    assert len(lost) + kept.count(b"\n") == 100
    for id in range(100):
        replay.on_hub_lines(result(id))
    replay.on_loss()
    replay.sent(request(200, "prompts/get", name=text))
    assert replay.on_loss() == b"", "there is room again"
    for id in range(1000, 1000 + 2 * MAX_RUNNING):
        replay.sent(request(id, "tools/call"))
    assert len(messages(replay.on_loss())) == MAX_RUNNING - 1


@pytest.mark.parametrize(
    "odd",
    [b"\n", b"nonsense\n", b"[]\n", b"[1]\n", b'"x"\n', b'{"id":[],"method":7}\n', b'{"id":1.5,"method":"ping"}\n',
     b'{"jsonrpc":"2.0","id":true,"method":"tools/call"}\n', b'{"jsonrpc":"2.0","id":\n', b'{"jsonrpc":"2.0","id":"\n',
     b'{"jsonrpc":"2.0","id":x,"result":{}}\n', b'{"jsonrpc":"2.0","method":"notifications/cancelled"}\n',
     b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}\n',
     b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{}}}\n'],
)  # fmt: skip
def test_odd_lines_pass_and_leave_nothing(odd):
    replay = introduced()
    replay.sent(odd)
    assert replay.on_hub_lines(odd) == odd
    assert replay.on_loss() == b""
    assert renewed(replay) == b""


def test_what_nobody_will_answer_is_answered():
    replay = introduced()
    replay.sent(request(2, "ping"))
    replay.sent(request(3, "tools/call"))
    assert messages(replay.give_up(b"")) == [(2, True), (3, True)]
    assert replay.give_up(b"") == b""
