"""States that hosts carry: they open for the request they were made for, and for nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.bridge.sealed_request_state import (
    EXPIRED,
    INVALID,
    MAX_READ_BYTES,
    BadState,
    RequestStates,
    answers_of,
    bind,
    digest,
    input_required,
)
from hub.link.sealing import Sealer
from hub.linux.boot_clock import BootClock, boot_clock
from hub.wire.jsonrpc import RemoteProtocolError, Request, encode_response, raw
from hub.wire.mcp import L4, MODERN
from hub.wire.questions.askable_questions import Question
from hub.wire.total_item_limit import MAX_ITEMS
from tests.support.counting import calls_of
from tests.support.schemas import validate


class Clock:
    """The time of day, for tests."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def call(name="echo", arguments=None, method="tools/call", **more) -> Request:
    params = {"name": raw(name), "arguments": raw({} if arguments is None else arguments)}
    return Request(1, method, params | {key: raw(value) for key, value in more.items()})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def states(clock):
    return RequestStates(Sealer(b"k" * 32), wall=clock)


def reason(states, text, principal="me", request=None) -> str:
    with pytest.raises(BadState) as caught:
        states.open(text, principal, request or call())
    return caught.value.reason


@pytest.mark.covers("R-6", "R-7")
def test_a_state_comes_back_with_what_was_put_into_it(states):
    text = states.seal("park", bind("up", "me", call()), {"i": "abc", "n": 3}, ttl_s=10)
    state = states.open(text, "me", call(requestState=text, inputResponses={"q1": {}}))
    assert (state.mode, state.binding.upstream) == ("park", "up")
    assert state.members == {"i": raw("abc"), "n": raw(3)}


@pytest.mark.covers("F-H-15", "R-19")
def test_a_state_is_no_good_for_another_request(states):
    text = states.seal("relay", bind("up", "me", call()), {}, ttl_s=10)
    assert reason(states, text, principal="you") == INVALID
    assert reason(states, text, request=call("other")) == INVALID
    assert reason(states, text, request=call(arguments={"a": 1})) == INVALID
    assert reason(states, text, request=call(method="prompts/get")) == INVALID
    assert reason(RequestStates(Sealer(b"o" * 32), wall=Clock()), text) == INVALID


@pytest.mark.covers("F-H-15")
def test_a_state_with_any_byte_changed_is_no_good(states):
    text = states.seal("relay", bind("up", "me", call()), {}, ttl_s=10)
    for at in range(len(text)):
        changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        assert reason(states, changed) == INVALID
    for odd in ("", ".", "v1..", text + "A", text[:-1], "\ud800", "é"):
        assert reason(states, odd) == INVALID


@pytest.mark.covers("F-H-15")
def test_that_a_state_is_old_is_told_to_its_owner_only(states, clock):
    text = states.seal("relay", bind("up", "me", call()), {}, ttl_s=10)
    clock.now += 11
    assert reason(states, text) == EXPIRED
    assert reason(states, text, principal="you") == INVALID


@pytest.mark.covers("F-D-11", "F-I-10")
@pytest.mark.parametrize("jump_s", [3600.0, -86_400.0, 400 * 86_400.0])
def test_the_clock_that_nobody_sets_decides_while_the_machine_runs(clock, jump_s):
    booted = Clock()
    states = RequestStates(Sealer(b"k" * 32), wall=clock, boot=BootClock("boot", booted))
    text = states.seal("relay", bind("up", "me", call()), {}, ttl_s=10)
    clock.now += jump_s
    reborn = RequestStates(Sealer(b"k" * 32), wall=clock, boot=BootClock("boot", booted))
    booted.now += 9
    assert states.open(text, "me", call()) == reborn.open(text, "me", call())
    booted.now += 2
    assert reason(states, text) == reason(reborn, text) == EXPIRED


@pytest.mark.covers("F-D-11")
@pytest.mark.parametrize("id", ["", "another"])
def test_the_time_of_day_decides_after_the_machine_was_started_again(clock, id):
    before = RequestStates(Sealer(b"k" * 32), wall=clock, boot=BootClock("boot", lambda: 5_000.0))
    text = before.seal("relay", bind("up", "me", call()), {}, ttl_s=10)
    after = RequestStates(Sealer(b"k" * 32), wall=clock, boot=BootClock(id, lambda: 1.0))
    assert after.open(text, "me", call()).mode == "relay"
    clock.now += 11
    assert reason(after, text) == EXPIRED


@pytest.mark.covers("F-D-11", "F-I-10")
def test_of_what_is_remembered_whoever_remembers_it_decides(clock):
    states = RequestStates(Sealer(b"k" * 32), wall=clock, remembered=("park",))
    text = states.seal("park", bind("up", "me", call()), {}, ttl_s=10)
    assert not states.open(text, "me", call()).expired
    clock.now += 3600
    assert states.open(text, "me", call()).expired


def test_the_clock_of_this_machine():
    one, other = boot_clock(), boot_clock()
    assert one.id == other.id
    assert 0 <= one.now() <= other.now()


def test_a_machine_that_does_not_say_which_run_of_it_this_is(monkeypatch, tmp_path):
    monkeypatch.setattr("hub.linux.this_machine._ID_PATH", tmp_path / "none")
    assert boot_clock().id == ""


@pytest.mark.covers("R-7")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":2}', '{"b":2.0,"a":1e0}'),
        ('{"a":[1,{"x":null}]}', '{ "a" : [ 1.0 , {"x":null} ] }'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":-0}', '{"a":0}'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
        ('{"a":1e400}', '{"a":1e999}'),
    ],
)
def test_how_a_host_writes_its_arguments_makes_no_difference(one, other):
    assert digest(call(arguments=msg(one))) == digest(call(arguments=msg(other)))


def msg(text):
    return Raw(text.encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)
def test_what_differs_has_another_digest(one, other):
    a, b = call(arguments={"a": one}), call(arguments={"a": other})
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    if same or type(one) is type(other) is str:
        assert (digest(a) == digest(b)) == (one == other)


def test_what_is_left_out_of_the_digest():
    assert digest(call()) == digest(call(_meta={"progressToken": 1}, requestState="x", inputResponses={}))


@pytest.mark.covers("R-3", "R-4")
def test_an_input_required_result_is_one():
    question = Question("elicitation/create", {"message": raw("?")}, "up", L4)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    params = {"message": raw("[up] ?"), "mode": raw("form"), "requestedSchema": raw(schema)}
    result = input_required({"q1": raw({"method": question.method, "params": params})}, "sealed")
    validate(encode_response(1, result), MODERN, sender="server", method="tools/call")
    found = json.loads(bytes(result.value))
    assert found["inputRequests"]["q1"] == {
        "method": "elicitation/create",
        "params": {"message": "[up] ?", "mode": "form", "requestedSchema": schema},
    }
    assert (found["resultType"], found["requestState"]) == ("input_required", "sealed")


# --- what it costs ----------------------------------------------------------------------------------------------------


def large(count: int, item: bytes = b"1") -> Request:
    return call(arguments=Raw(b'{"a":[%b]}' % b",".join([item] * count)))


@pytest.mark.covers("SEC-13", "I-3")
def test_large_arguments_are_compared_as_they_are_written(states):
    one, other = large(MAX_READ_BYTES), large(MAX_READ_BYTES, b"2")
    text = states.seal("relay", bind("up", "me", one), {}, ttl_s=10)
    assert states.open(text, "me", large(MAX_READ_BYTES), "up").binding.upstream == "up"
    for changed in (other, large(MAX_READ_BYTES + 1), large(1), call("other", one.params["arguments"])):
        assert reason(states, text, request=changed) == INVALID


@pytest.mark.covers("SEC-13", "I-3")
def test_to_compare_large_arguments_takes_no_calls_for_what_is_in_them():
    assert calls_of(lambda: digest(large(MAX_READ_BYTES))) == calls_of(lambda: digest(large(2 * MAX_READ_BYTES))) < 50


@pytest.mark.covers("SEC-13", "I-3", "F-H-15")
@pytest.mark.parametrize("size", [1, MAX_READ_BYTES])
def test_what_costs_least_is_compared_before_the_arguments(states, monkeypatch, size):
    text = states.seal("relay", bind("up", "me", large(size)), {}, ttl_s=10)
    monkeypatch.setattr("hub.bridge.sealed_request_state.digest", None)  # whoever asks for it fails
    stranger = large(size).params["arguments"]
    for request, principal, upstream in (
        (large(size), "you", "up"),
        (large(size), "me", "elsewhere"),
        (call(arguments=stranger, method="prompts/get"), "me", "up"),
        (large(MAX_READ_BYTES + 9), "me", "up"),
        (large(9 * MAX_READ_BYTES), "me", "up"),
    ):
        with pytest.raises(BadState) as caught:
            states.open(text, principal, request, upstream)
        assert caught.value.reason == INVALID


@pytest.mark.covers("SEC-13", "I-3")
def test_answers_of_a_retry_that_are_a_crowd_are_refused():
    crowd = Raw(b"{%b}" % b",".join(b'"%d":1' % number for number in range(MAX_ITEMS + 1)))
    with pytest.raises(RemoteProtocolError, match="inputResponses has more than 100000 items"):
        answers_of(call(inputResponses=crowd))
    assert list(answers_of(call(inputResponses={"q1": {}}))) == ["q1"]
    assert answers_of(call()) == {}
    with pytest.raises(RemoteProtocolError, match="Expected a JSON object"):
        answers_of(call(), needed=True)
