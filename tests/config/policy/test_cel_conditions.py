"""Conditions of rules, in CEL: what holds, what cannot be told, and what is no condition."""

import sys

import pytest

from config.policy.cel_conditions import BadCondition, ConditionFailed, compile_condition, host_of, sql_verbs, under

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
        ("/notes/../notes/a", True),
        ("/notes/a/../../notesx/a", False),
        ("/x/../notes/a", True),
    ],
)
@pytest.mark.covers("POL-14")
def test_a_path_is_under_a_directory_if_it_ends_there(path, is_under):
    assert under(path, "/notes") is is_under
    assert under(path, "/notes/./") is is_under


def test_the_home_of_whoever_runs_the_hub(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert under("/home/me/notes/a", "~/notes")
    assert under("/home/me", "~")
    assert not under("/home/you/notes", "~/notes")

    with pytest.raises(ValueError, match="absolute"):
        under("/notes/\0", "/notes")


@pytest.mark.parametrize("path", ["notes/a", "~/notes", "$HOME/notes", "file:///notes", "/../notes", ""])
@pytest.mark.covers("POL-14", "POL-15")
def test_where_it_cannot_be_told_whether_a_path_is_there_rules_deny_either_way(path):
    for text in ("under(args.path, '/notes')", "!under(args.path, '/notes')", "under('/notes', args.path)"):
        if not path.startswith("~") or "args.path, " in text:
            with pytest.raises(ConditionFailed):
                holds(text, path=path)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.com/x", "example.com"),
        ("https://example.com.:443/x", "example.com"),
        ("HTTPS://a_b-c.example:/?q=@x", "a_b-c.example"),
        ("https://[::1]:80/", "::1"),
        ("https://[0:0::0:1]/", "::1"),
        ("http://127.0.0.1:80", "127.0.0.1"),
        ("http://1.example", "1.example"),
        ("http://0x.example#x", "0x.example"),
    ],
)
@pytest.mark.covers("POL-14")
def test_hosts_of_urls(url, host):
    assert host_of(url) == host
    assert holds("hostOf(args.url) == args.host", url=url, host=host)


@pytest.mark.parametrize(
    "url",
    [
        *("https://good.com\\@evil.com/", "https://good.com@evil.com/", "https://a b/", "/path", "https://[::1", ""),
        *("http:evil.com", "http:/evil.com", "http:///evil.com", "//evil.com", "evil.com", " http://evil.com"),
        *(
            "http://ev\til.com",
            "http://evil.com\n.example",
            "http://%65vil.com",
            "http://evil\u3002com",
            "http://ev\u0131l.com",
            "http://\u212aa.com",
        ),
        *("http://evil.com:80:90/", "http://2130706433", "http://0x7f.1/", "http://127.1", "http://0177.0.0.1."),
    ],
)
@pytest.mark.covers("POL-14", "POL-15")
def test_where_programs_may_disagree_about_a_host_rules_deny_either_way(url):
    for text in ('hostOf(args.url) == "evil.com"', 'hostOf(args.url) != "evil.com"'):
        with pytest.raises(ConditionFailed):
            holds(text, url=url)


@pytest.mark.parametrize(
    ("text", "verbs"),
    [
        ("KILL 5", ["KILL"]),
        ("start slave; (stop slave)", ["START", "STOP"]),
        ("SELECT 1;\n-- SELECT\nfoo bar", ["FOO", "SELECT"]),
        ("/* SELECT */ foo", ["FOO", "SELECT"]),
        ("SELECT '--'; -- SELECT\nfoo", ["FOO", "SELECT"]),
        ("SELECT 1 /*!50000 foo */ # b\rbar", ["B", "BAR", "FOO", "SELECT"]),
        ("SELECT a\nFROM t\nWHERE b = 1;\n", ["SELECT"]),
        ("SELECT * INTO OUTFILE '/x' FROM t", ["INTO", "OUTFILE", "SELECT"]),
        ("SELECT 1 SHUTDOWN", ["SELECT", "SHUTDOWN"]),
        ("  ", []),
    ],
)
@pytest.mark.covers("POL-14")
def test_the_first_word_of_a_statement_counts_whatever_it_is(text, verbs):
    assert sql_verbs(text) == verbs


@pytest.mark.covers("POL-14")
def test_verbs_of_sql_are_found_wherever_they_stand():
    assert sql_verbs("select * from drop_outs -- delete") == ["DELETE", "DROP", "SELECT"]
    assert holds('!sqlVerbs(args.q).exists(v, v != "SELECT")', q="SELECT 1")
    assert not holds('!sqlVerbs(args.q).exists(v, v != "SELECT")', q="SELECT 1; /* */ dRoP table x")
