"""What people see."""

import pytest

from hub.show import duration, result, status, table, tools

STATUS = {
    "version": "1.2.3",
    "uptimeS": 200.0,
    "upstreams": [
        {
            "name": "files",
            "state": "connected",
            "era": "legacy",
            "version": "2025-11-25",
            "transport": "stdio",
            "sessions": 3,
            "mode": "interactive",
            "parked": 2,
            "unattributed": 1,
            "counts": {"tools": 14, "prompts": 0, "resources": 3, "templates": 1},
            "last_error": None,
            "restarts": 0,
            "degraded": [],
        },
        {
            "name": "broken",
            "state": "failed",
            "last_error": "exit 1:\x1b[31m no\nlast words on stderr",
            "restarts": 5,
            "degraded": ["too many tools"],
        },
    ],
    "hosts": [
        {
            "host": "Claude",
            "label": "claude-code",
            "transport": "unix",
            "version": "2025-06-18",
            "endpoint": "/mcp",
            "attached_s": 7300.0,
            "idle_s": 0.4,
            "in_flight": 3,
            "asked": 1,
        }
    ],
    "warnings": ["two tools share a name"],
}


def test_past_trouble_of_a_running_upstream_is_told_as_past():
    upstream = {"name": "time", "state": "connected", "last_error": "killed by SIGKILL\nnoise", "restarts": 1}
    shown = status({"upstreams": [upstream]})
    assert shown.splitlines()[3].endswith("before: killed by SIGKILL; restarted once")


def test_trouble_of_an_upstream_on_its_way_is_told_as_it_is():
    shown = status({"upstreams": [{"name": "time", "state": "reconnecting", "last_error": "exit 1"}]})
    assert shown.splitlines()[3].endswith("  exit 1")


def test_status():
    assert status(STATUS) == (
        "hubd 1.2.3, up 3 min\n"
        "\n"
        "UPSTREAM  STATE      ERA     VERSION     TRANSPORT  SESSIONS  MODE         "
        "TOOLS  PROMPTS  RESOURCES  TEMPLATES  NOTE\n"
        "files     connected  legacy  2025-11-25  stdio             3  interactive  "
        "   14        0          3          1  2 calls wait for answers of hosts; "
        "1 question refused: nobody can tell which host it is for\n"
        "broken    failed     -       -           -                 -  -            "
        "    -        -          -          -  "
        "exit 1:\\x1b[31m no; tried again when a host asks for it; too many tools; restarted 5 times\n"
        "\n"
        "HOST                  TRANSPORT  VERSION     ENDPOINT  ATTACHED  IDLE  CALLS  ASKED\n"
        "Claude (claude-code)  unix       2025-06-18  /mcp      2 h       0 s       3      1\n"
        "\n"
        "warning: two tools share a name"
    )


def test_an_empty_hub():
    assert status({}) == "hubd ?, up 0 s\n\nno upstreams\n\nno hosts attached"
    assert tools([]) == ""
    assert result({}) == ""


def test_tools_are_one_line_each():
    entries = [
        {"name": "a__b", "description": "First line.\nSecond."},
        {"name": "a__long", "description": "x" * 200},
        {"name": "c", "title": "A title"},
        {"name": "d"},
    ]
    assert tools(entries).split("\n") == [
        "a__b     First line.",
        "a__long  " + "x" * 99 + "…",
        "c        A title",
        "d        -",
    ]


@pytest.mark.covers("SEC-54")
def test_results_show_text_and_name_the_rest():
    content = [
        {"type": "text", "text": "one\n\ttwo \x1b[2J"},
        {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        {"type": "resource_link", "name": "n", "uri": "x:y"},
        {"type": "resource", "resource": {"uri": "x:z", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "x:z", "blob": "AAAA", "mimeType": "a/b"}},
        {"type": "new"},
        "nonsense",
    ]
    assert result({"content": content}).split("\n") == [
        "one",
        "\ttwo \\x1b[2J",
        "[image: image/png, 3 bytes; --raw shows it]",
        "[n: x:y]",
        "inside",
        "[a/b: x:z]",
        "[new: unknown type, 0 bytes; --raw shows it]",
    ]
    assert result({"content": [], "structuredContent": {"a": "ü"}}) == '{\n  "a": "ü"\n}'


def test_small_parts():
    assert [duration(seconds) for seconds in (0.4, 119, 120, 7200, 200_000)] == ["0 s", "119 s", "2 min", "2 h", "2 d"]
    assert table((), []) == []
