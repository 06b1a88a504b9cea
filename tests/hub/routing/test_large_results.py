"""Results that are kept: how much, for how long, and where they are cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.calls.host_exchange import HostExchange, tell_nobody
from hub.link.call_interface import Caller, Identity
from hub.routing.large_results import GONE, MAX_EACH_BYTES, MAX_KEPT_BYTES, LargeResults
from hub.rules.policy.judge import Judge
from hub.wire.jsonrpc import Result as Whole
from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw
from hub.wire.mcp import L1, L4

MEBIBYTE = 1 << 20


def caller(name="ann", version=L4):
    return Caller(Identity(name, "desk"), version, {})


def viewer(caller):
    return HostExchange(caller, tell_nobody)


def result(text):
    return Whole(raw({"content": [{"type": "text", "text": text}]}))


def cut(results, text, limit, who=None):
    """The text that a host is shown, and the id; "": nothing is kept."""
    reply = results.cut(result(text), limit, who or caller(), "a__b")
    shown = peek_str(peek_object(peek_array(peek_object(reply.value)["content"])[0])["text"])
    found = re.search(r"id=(\S+) offset", shown)
    return shown, found.group(1) if found else ""


def read(results, id, who=None, **more):
    return results.read(raw({"id": id, **more}), viewer(who or caller())).text


@pytest.mark.covers("EL-2")
def test_the_oldest_go_first_and_those_of_the_same_account():
    results = LargeResults(lambda: 0.0, Judge())
    big = "x" * (10 * MEBIBYTE)
    bobs = cut(results, big, 100, caller("bob"))[1]
    mine = [cut(results, f"{big}{number}", 100)[1] for number in range(4)]
    assert [read(results, id, length=1).startswith("x") for id in mine] == [False, True, True, True]
    assert read(results, bobs, caller("bob"), length=1).startswith("x")
    others = [cut(results, big, 100, caller(f"p{number}"))[1] for number in range(3)]
    assert read(results, bobs, caller("bob")) == GONE
    assert read(results, others[-1], caller("p2"), length=1).startswith("x")
    assert sum(results._sizes.values()) <= MAX_KEPT_BYTES


@pytest.mark.covers("EL-2")
def test_the_same_text_is_kept_once_and_for_an_hour_from_the_last_time():
    now = 0.0
    results = LargeResults(lambda: now, Judge())
    text = "x" * 1_000
    first = cut(results, text, 100)[1]
    now = 3_000.0
    assert cut(results, text, 100)[1] == first
    assert cut(results, text, 200)[1] != first
    assert cut(results, text, 100, caller("bob"))[1] != first
    now = 6_000.0
    assert read(results, first, length=1).startswith("x")
    assert results._sizes == {"ann": 2_000, "bob": 1_000}


@pytest.mark.covers("EL-2")
def test_what_is_too_large_is_cut_and_not_kept():
    results = LargeResults(lambda: 0.0, Judge())
    shown, id = cut(results, "x" * (MAX_EACH_BYTES + 1), 100)
    assert id == ""
    assert shown.endswith("[33.6 MB in all; the rest is too large to be kept]")


@pytest.mark.covers("EL-1")
def test_older_hosts_get_no_link():
    results = LargeResults(lambda: 0.0, Judge())
    reply = results.cut(result("x" * 1_000), 100, caller(version=L1), "a__b")
    assert len(peek_array(peek_object(reply.value)["content"])) == 1


@pytest.mark.covers("EL-1")
@pytest.mark.parametrize("arguments", [{}, {"id": 7}, {"id": None, "offset": "x"}, {"id": "../../etc"}])
def test_arguments_that_mean_nothing(arguments):
    assert LargeResults(lambda: 0.0, Judge()).read(raw(arguments), viewer(caller())).is_error


@pytest.mark.covers("EL-1")
@given(st.text(st.sampled_from("ab\n€𝄞"), min_size=30), st.integers(1, 60), st.integers(1, 20))
def test_all_parts_together_are_the_text(text, limit, length):
    results = LargeResults(lambda: 0.0, Judge())
    shown, id = cut(results, text, limit)
    if not id:
        assert shown == text
        return
    found = bytearray(shown.rpartition("\n[")[0].encode())
    at = len(found)
    while at < len(text.encode()):
        part, _, where = read(results, id, offset=at, length=length).rpartition("\n[")
        begin, end = map(int, re.match(r"bytes (\d+) to (\d+) of", where).group(1, 2))
        assert (begin, end > at) == (at, True)
        found += part.encode()
        at = end
    assert found.decode() == text


@pytest.mark.covers("EL-1")
@given(st.text(st.sampled_from("aAb\n€"), min_size=50), st.text(st.sampled_from("ab€"), min_size=1, max_size=3))
def test_every_line_that_has_a_text_is_found(text, sought):
    results = LargeResults(lambda: 0.0, Judge())
    _, id = cut(results, text, 10)
    found, at, lines = [], 0, 0
    while True:
        shown = read(results, id, find=sought, offset=at).split("\n")
        more = re.fullmatch(r"\[more: offset=(\d+)\]", shown[-1])
        found += shown[: -1 if more else None]
        if not more:
            break
        at = int(more[1])
    lines = sum(sought.lower() in line.lower() for line in text.split("\n"))
    assert len([each for each in found if each.startswith("offset=")]) == lines
