"""Words of approvals: nothing that hosts and servers write can mislead the person who reads it."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import UpstreamConfig
from hub.rules.approvals.question_form import form, offers, read_answer
from hub.rules.approvals.texts_for_people import (
    MAX_ARGUMENTS,
    cut,
    question_text,
    show_arguments,
    show_marks,
    show_program,
)
from hub.wire.jsonrpc import peek_object, peek_str, raw
from hub.wire.mcp import L3, L4, MODERN
from hub.wire.printable import visible
from hub.wire.questions.askable_questions import Question
from hub.wire.questions.check_and_translate import question_for_host

INVISIBLE = "\ufe0f\u034f\u115f\u2800\u3164\uffa0\u200b\u202e\u2066\U000e0041\n\r\t\x1b\x00\ufeff"


@pytest.mark.covers("POL-24")
@pytest.mark.parametrize("character", INVISIBLE)
def test_what_is_not_seen_is_escaped(character):
    shown = visible(f"a{character}b")
    assert character not in shown
    assert shown.startswith("a\\")


@pytest.mark.covers("POL-24")
@given(st.text(max_size=400))
def test_everything_is_shown_on_one_line(text):
    shown = show_arguments(raw({"a": text, text[:20]: 1}))
    assert shown.isprintable()
    assert not set(shown) & set(INVISIBLE)


@pytest.mark.covers("POL-24")
def test_no_name_looks_like_other_arguments():
    shown = show_arguments(raw({'path="/tmp/safe" mode': "r", "path": "/etc/passwd", "x-y.z": 1}))
    assert shown == r'"path=\"/tmp/safe\" mode"="r" path="/etc/passwd" x-y.z=1'


@pytest.mark.covers("POL-24")
def test_what_is_cut_off_is_counted():
    text = "x" * 3_612
    assert cut(text, 200) == f"{'x' * 200} and 3 412 more characters, sha256 {sha256(text.encode()).hexdigest()}"
    assert cut("short", 200) == "short"
    many = show_arguments(raw({f"a{each}": each for each in range(30)}))
    assert f"a{MAX_ARGUMENTS - 1}=19" in many
    assert "a20" not in many
    assert "and 10 more arguments, sha256 " in many
    long = show_arguments(raw({f"a{each}": "y" * 300 for each in range(20)}))
    assert len(long) < 5_000
    assert "more arguments, sha256 " in long


@pytest.mark.covers("POL-24")
def test_arguments_that_cannot_be_opened_are_shown_all_the_same():
    assert show_arguments(raw({})) == show_arguments(None) == ""
    assert show_arguments(raw([1, 2])) == "[1,2]"
    crowd = raw({str(each): each for each in range(200_000)})
    assert show_arguments(crowd).startswith('{"0":0')


def test_arguments_read_as_they_are_sent():
    given_ = {"owner": "acme", "repo": "site", "n": 1, "deep": {"a": [True, None]}}
    assert show_arguments(raw(given_)) == 'owner="acme" repo="site" n=1 deep={"a":[true,null]}'


@pytest.mark.covers("POL-24")
def test_a_name_of_an_argument_looks_like_no_other_argument():
    assert show_arguments(raw({'path="/tmp/safe" mode': "r", "size-1.x": 1})) == (
        r'"path=\"/tmp/safe\" mode"="r" size-1.x=1'
    )
    assert show_arguments(raw({"": 1, "a b": 2, "c\u3164": 3, "d" * 130: 4})) == (
        rf'""=1 "a b"=2 "c\u3164"=3 {"d" * 128} and 2 more characters, sha256 {sha256(b"d" * 130).hexdigest()}=4'
    )


@pytest.mark.covers("POL-24")
def test_the_arguments_that_a_tool_knows_are_shown_first():
    crowd = {f"x{each}": each for each in range(30)}
    shown = show_arguments(raw({**crowd, "mode": "r", "path": "/etc/passwd"}), order={"path": 0, "mode": 1})
    assert shown.startswith('path="/etc/passwd" mode="r" x0=0 x1=1 ')
    assert "and 12 more arguments, sha256 " in shown


@pytest.mark.covers("POL-23")
def test_the_first_line_says_who_wants_what():
    text = question_text('ev"il\nserver: good', "run", "db__x\u202e", [("server", "db"), ("marks", ""), ("rule", "r")])
    assert text.split("\n") == ['hubd: may "ev"il\\nserver: good" run db__x\\u202e?', "server: db", "rule: r"]


@pytest.mark.covers("POL-23")
def test_programs_are_shown_without_secrets():
    assert show_program(UpstreamConfig(command="npx", args=("-y", "db", "--token=abcdef123456"))).startswith(
        "npx -y db --token=***"
    )
    shown = show_program(UpstreamConfig(url="https://u:p@example.com/mcp?key=abcdef"))
    assert "example.com/mcp" in shown
    assert "abcdef" not in shown


@pytest.mark.covers("POL-23")
def test_marks_say_whose_they_are():
    marks = {"destructive", "open-world"}
    assert (
        show_marks(marks, "db", trusted=True, is_users=False) == "@destructive, @open-world, says db, which is trusted"
    )
    assert show_marks(marks, "db", trusted=False, is_users=False).endswith("since db is not trusted")
    assert show_marks((), "db", trusted=False, is_users=True) == "none, as hints of the configuration say"


@pytest.mark.covers("POL-23")
@pytest.mark.parametrize("version", [L3, L4, MODERN])
def test_only_the_hub_asks_without_a_name_in_front(version):
    params = question_for_host(form("hubd: may x?", ("once", "session"), MODERN), version)
    assert peek_str(params["message"]) == "hubd: may x?"
    decision = json.loads(bytes(params["requestedSchema"]))["properties"]["decision"]
    assert decision == {"type": "string", "title": "Decision", "enum": ["once", "session"]}
    posing = {"message": raw("hubd: may x?"), "requestedSchema": params["requestedSchema"]}
    shown = question_for_host(Question("elicitation/create", posing, "evil", version), version)
    assert peek_str(shown["message"]) == "[evil] hubd: may x?"
    assert peek_object(params["requestedSchema"])


@pytest.mark.parametrize(
    ("remember", "lasts", "found"),
    [
        ("once", True, ("once",)),
        ("session", True, ("once", "session")),
        ("session", False, ("once", "hour")),
        ("always", False, ("once", "hour", "always")),
    ],
)
def test_no_more_is_offered_than_may_be_remembered(remember, lasts, found):
    assert offers(remember, lasts=lasts) == found


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"action": "accept", "content": {"decision": "once"}}, "once"),
        ({"action": "accept", "content": {"decision": "always"}}, "nothing"),
        ({"action": "accept", "content": {"decision": "no"}}, "nothing"),
        ({"action": "accept", "content": {}}, "nothing"),
        ({"action": "accept"}, "nothing"),
        ({"action": "cancel", "content": {"decision": "once"}}, "nothing"),
        ({"action": "decline", "content": {"decision": "once"}}, "no"),
        ({}, "nothing"),
        ([], "nothing"),
    ],
)
def test_only_what_was_offered_is_a_yes(answer, decision):
    assert read_answer(raw(answer), ("once", "session")) == decision
