"""Conditions of rules, in CEL: what holds, what cannot be told, and what is no condition."""

import sys

import pytest

from config.conditions import BadCondition, ConditionFailed, compile_condition, host_of, sql_verbs, under

FACTS = {
    "tool": "fs__write",
    "upstream": "fs",
    "original": "write",
    "host": "cursor",
    "principal": "local",
    "hints": {"read-only": False, "destructive": True},
    "trusted": True,
}


def holds(text, **arguments):
    return compile_condition(text).holds({**FACTS, "args": arguments})


@pytest.mark.covers("POL-14")
def test_all_variables_can_be_asked_about():
    assert holds('args.path == "/a" && tool == "fs__write" && upstream == "fs" && original == "write"', path="/a")
    assert holds('host == "cursor" && principal == "local" && hints["destructive"] && trusted')
    assert holds('has(args.x) && args.x.exists(y, y == "b")', x=["a", "b"])
    assert not holds("has(args.x)")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("args.path == 'x'", {}),
        ("args.n > 10", {"n": "ten"}),
        ("args.n > 10", {"n": 10**30}),
        ("args.n", {"n": "true"}),
        ("args.n", {"n": 1}),
        ("under(args.path, '/a')", {"path": ["/a"]}),
        ("args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, args.l.all(e, true)))))", {"l": list(range(20))}),
    ],
)
@pytest.mark.covers("POL-15")
def test_what_cannot_be_told_is_no_truth(text, arguments):
    with pytest.raises(ConditionFailed):
        holds(text, **arguments)


@pytest.mark.parametrize("text", ["", "args.", "tool", "tool + 1", "nosuch", "under(1, 2)", "x" * 5000])
@pytest.mark.covers("POL-14")
def test_what_is_no_condition_is_refused_when_it_is_compiled(text):
    with pytest.raises(BadCondition):
        compile_condition(text)


@pytest.mark.covers("POL-14")
def test_without_the_extra_there_are_no_conditions(monkeypatch):
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)
    with pytest.raises(BadCondition, match=r"\[cel\]"):
        compile_condition("args.without == 'extra'")


@pytest.mark.parametrize(
    ("path", "is_under"),
    [
        ("/notes", True),
        ("/notes/", True),
        ("/notes/a/b", True),
        ("//notes/./a", True),
        ("/notes/a/../b", True),
        ("/notesx", False),
        ("/notes/..", False),
        ("/notes/../notes/a", False),
        ("/notes/a/../../notes/a", False),
        ("/x/../notes/a", False),
        ("notes/a", False),
        ("~/notes", False),
        ("/notes/\0", False),
        ("", False),
    ],
)
@pytest.mark.covers("POL-14")
def test_a_path_is_under_a_directory_if_it_never_leaves_it(path, is_under):
    assert under(path, "/notes") is is_under
    assert under(path, "/notes/./") is is_under


def test_the_home_of_whoever_runs_the_hub(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert under("/home/me/notes/a", "~/notes")
    assert under("/home/me", "~")
    assert not under("/home/you/notes", "~/notes")
    assert not under("/a", "../a")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/x", "example.com"),
        ("https://example.com.:443/x", "example.com"),
        ("https://[::1]:80/", "::1"),
        ("https://good.com\\@evil.com/", ""),
        ("https://good.com@evil.com/", ""),
        ("https://a b/", ""),
        ("/path", ""),
        ("https://[::1", ""),
    ],
)
@pytest.mark.covers("POL-14")
def test_hosts_of_urls(url, host):
    assert host_of(url) == host
    assert holds("hostOf(args.url) == args.host", url=url, host=host)


@pytest.mark.covers("POL-14")
def test_verbs_of_sql_are_found_wherever_they_stand():
    assert sql_verbs("select * from drop_outs -- delete") == ["DELETE", "DROP", "SELECT"]
    assert holds('!sqlVerbs(args.q).exists(v, v != "SELECT")', q="SELECT 1")
    assert not holds('!sqlVerbs(args.q).exists(v, v != "SELECT")', q="SELECT 1; /* */ dRoP table x")
