"""Scopes: which can be read, and which may be asked for."""

import pytest

from upstreams.oauth.discovery.scopes import fits, is_scope, listed_scopes, permitted, readable_scopes


@pytest.mark.parametrize("text", ["a", "repo:*", "https://h.example/a.b", "!#[]~", "a" * 256])
def test_a_scope(text):
    assert is_scope(text)
    assert readable_scopes(text) == (text,)


@pytest.mark.parametrize("text", ["", "a b", 'a"', "a\\", "ä", "a\x7f", "a\n", "a" * 257, 1, None, ["a"]])
def test_no_scope(text):
    assert not is_scope(text)


def test_a_list_keeps_what_can_be_read_once():
    assert listed_scopes(["a", 1, "b c", "a", None, "d"]) == ("a", "d")
    assert listed_scopes("a") == listed_scopes(None) == listed_scopes({"a": 1}) == ()


def test_scopes_that_fit_into_a_request():
    assert fits([])
    assert fits([str(number) for number in range(100)])
    assert not fits([str(number) for number in range(101)])
    assert not fits(["a" * 255 + str(number) for number in range(17)])


def test_the_operators_globs_permit():
    wanted = ("repo:read", "repo:write", "user", "repo:read")
    assert permitted(wanted, ()) == ("repo:read", "repo:write", "user")
    assert permitted(wanted, ("repo:*",)) == ("repo:read", "repo:write")
    assert permitted(wanted, ("!*:write",)) == ("repo:read", "user")
    assert permitted(wanted, ("nothing",)) == ()
