"""Requests for a person's yes: equal ones join, and there are never many."""

import pytest
from msgspec import structs

from hub.catalog.endpoint_views import EVERYTHING
from hub.link.call_interface import Caller, Identity
from hub.link.hub_errors import Overloaded
from hub.rules.approvals.requests import (
    DECLINE_S,
    MAX_KEPT,
    MAX_OPEN,
    MAX_REQUESTS,
    MAX_WAITING,
    NEW_PER_MINUTE,
    Requests,
    Subject,
    Wish,
)
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4

SUBJECT = Subject("local", "cursor", "db", "tools", "drop", "d1")


def wish(digest="a", **changes):
    subject = structs.replace(SUBJECT, **changes)
    caller = Caller(Identity(subject.principal, subject.host), L4, {}, lasting=True)
    return Wish(subject, digest, "db__drop", "ask[0]", "runs", "hubd: may?", raw({}), "", caller, EVERYTHING, None)


@pytest.mark.covers("POL-20")
def test_equal_wishes_join():
    requests = Requests()
    first = requests.join(wish(), 0.0, 900.0)
    assert requests.join(wish(), 1.0, 900.0) is first
    for other in (
        wish("b"),
        wish(principal="bob"),
        wish(host="codex"),
        wish(upstream="x"),
        wish(kind="prompts"),
        wish(original="y"),
        wish(definition="d2"),
    ):
        assert requests.join(other, 1.0, 900.0) is not first


@pytest.mark.covers("POL-20")
def test_ids_are_four_capitals_and_digits():
    requests = Requests()
    ids = {requests.join(wish(f"{each}", host=f"h{each}"), 0.0, 900.0).id for each in range(200)}
    assert len(ids) == 200
    assert all(len(id) == 4 and id.isalnum() and id == id.upper() and id[0].isalpha() for id in ids)


@pytest.mark.covers("POL-25")
def test_a_request_ends_when_nobody_decides():
    requests = Requests()
    request = requests.join(wish(), 0.0, 900.0)
    assert requests.find(request.id, 899.0) is request
    assert requests.find(request.id, 900.0) is None
    assert requests.join(wish(), 901.0, 900.0) is not request
    waiting = requests.join(wish("b"), 901.0, 10.0)
    waiting.waiting = 1
    assert requests.find(waiting.id, 2_000.0) is waiting


@pytest.mark.covers("POL-25")
def test_a_yes_is_good_for_one_call():
    requests = Requests()
    request = requests.join(wish(), 0.0, 900.0)
    requests.approve(request, 899.0 + 900.0)
    requests.settle(request)
    assert requests.find(request.id, 1_798.0) is request
    request.is_approved = False
    requests.settle(request)
    assert requests.find(request.id, 1_798.0) is None


@pytest.mark.covers("POL-29")
def test_few_requests_of_a_program_are_made_a_minute():
    requests = Requests()
    for each in range(NEW_PER_MINUTE):
        requests.join(wish(f"{each}"), 0.0, 900.0)
    with pytest.raises(Overloaded):
        requests.join(wish("more"), 0.0, 900.0)
    requests.join(wish("more", host="other"), 0.0, 900.0)
    requests.join(wish("more"), 6.0, 900.0)


@pytest.mark.covers("I-3", "POL-29")
def test_all_requests_have_a_limit_and_no_program_takes_the_place_of_others():
    requests = Requests()
    for each in range(MAX_KEPT):
        first = requests.join(wish(f"{each}"), 10.0 * each, 900.0)
    with pytest.raises(Overloaded):
        requests.join(wish("more"), 600.0, 900.0)
    requests.decline(first, 600.0)
    requests.drop(first)
    others = [requests.join(wish(host=f"h{each}"), 600.0, 900.0) for each in range(MAX_REQUESTS + 2 - MAX_KEPT)]
    left = requests.all(600.0)
    assert len(left) == MAX_REQUESTS
    assert set(left) >= set(others)
    assert [each.wish.digest for each in left if each not in others] == [f"{each}" for each in range(1, MAX_KEPT - 1)]


@pytest.mark.covers("POL-29")
def test_few_are_shown_and_wait_at_a_time():
    requests = Requests()
    shown = [requests.join(wish(f"{each}"), 0.0, 900.0) for each in range(MAX_OPEN + 1)]
    for each in shown[:2]:
        assert requests.may_show(each)
        each.is_shown = True
        assert not requests.may_show(each)
    shown[2].states.put("x", None)
    assert requests.may_show(shown[2])
    assert not requests.may_show(shown[3])
    assert requests.may_show(requests.join(wish(host="other"), 0.0, 900.0))
    shown[0].waiting = MAX_OPEN + MAX_WAITING - 1
    assert requests.may_wait(shown[1])
    shown[0].waiting += 1
    assert not requests.may_wait(shown[1])


@pytest.mark.covers("POL-29")
def test_three_times_no_is_no_for_a_while():
    requests = Requests()
    request = requests.join(wish(), 0.0, 9_000.0)
    for at in (0.0, 1.0):
        requests.decline(request, at)
        assert not requests.is_unasked(SUBJECT, at)
    requests.decline(request, DECLINE_S + 0.5)
    assert not requests.is_unasked(SUBJECT, DECLINE_S + 0.5)
    requests.decline(request, DECLINE_S + 1.0)
    assert requests.is_unasked(SUBJECT, DECLINE_S + 1.0)
    assert requests.is_unasked(structs.replace(SUBJECT, definition="d2"), DECLINE_S + 1.0)
    assert not requests.is_unasked(structs.replace(SUBJECT, original="other"), DECLINE_S + 1.0)
    assert not requests.is_unasked(SUBJECT, 2 * DECLINE_S + 1.0)
