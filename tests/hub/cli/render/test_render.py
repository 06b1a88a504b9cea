"""What people see."""

import re

import pytest

from hub.cli.render import status as screen
from hub.cli.render.answers import record, result, tools
from hub.cli.render.tables import duration, table
from hub.control import methods
from hub.control.methods import read
from upstreams.status_facts import JournalRecord

STATUS = {
    "version": "1.2.3",
    "uptime_s": 200.0,
    "upstreams": [
        {
            "name": "files",
            "state": "connected",
            "era": "legacy",
            "version": "2025-11-25",
            "transport": "stdio",
            "since_s": 10_900.0,
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


def status(answer):
    return screen.status(read(methods.STATUS, answer))


def notes(**upstream):
    """The lines below the row of an upstream."""
    shown = status({"upstreams": [{"name": "time", **upstream}]})
    return [line[4:] for line in shown.splitlines()[4:] if line.startswith("    ")]


def test_past_trouble_of_a_running_upstream_is_told_as_past():
    error = "killed by SIGKILL\nnoise"
    found = notes(state="connected", last_error=error, last_error_ago_s=130.0, restarts=1)
    assert found == ["last error: killed by SIGKILL (2 min ago)", "restarted once"]


def test_trouble_of_an_upstream_on_its_way_is_told_as_it_is():
    assert notes(state="reconnecting", last_error="exit 1") == ["exit 1"]


@pytest.mark.covers("F-P-01", "F-P-27")
def test_a_crash_loop_says_so_first_and_when_it_is_tried_again():
    said = "\n".join(f"line {number}" for number in range(9))
    found = notes(
        state="reconnecting",
        crash_loop=True,
        ends_lately=4,
        last_error=f"time exited with status 1\n{said}",
        last_error_ago_s=2.0,
        next_attempt_s=3.6,
        failures=3,
    )
    assert found == [
        "crash loop: ended or failed to start 4 times within 5 min",
        "time exited with status 1 (2 s ago)",
        *(f"| line {number}" for number in range(5, 9)),
        "next attempt in 4 s, after 3 failures in a row",
    ]


def test_who_waits_for_a_call_says_so():
    assert notes(state="idle") == ["started by the first call that needs it"]
    assert notes(state="failed", last_error="no") == [
        "no",
        "retried on the next call; `hubd restart time` retries now",
    ]


@pytest.mark.covers("F-P-28")
def test_who_does_not_answer_pings_says_so():
    assert notes(state="connected", silent_s=90.0, health="silent") == [
        "not answering pings for 90 s; calls are still sent"
    ]


@pytest.mark.covers("F-C-01")
def test_what_is_wrong_with_the_configuration_comes_first():
    config = {"problem": "hubd.toml:3: no such key\nor so", "pending": ["listen"], "warnings": ["odd \x1b[31mkey"]}
    upstream = {"name": "a", "state": "connected", "stale_config": "it does not start\nnoise"}
    shown = status({"version": "1", "config": config, "upstreams": [upstream], "faults": 2}).split("\n")
    assert shown[2:6] == [
        "Configuration has errors; the previous one is still in use:",
        "  hubd.toml:3: no such key",
        "  or so",
        "settings that need a restart of the hub: listen",
    ]
    assert "    still runs with its old settings: it does not start" in shown
    assert shown[-2:] == [
        "warning: odd \\x1b[31mkey",
        "warning: the hub itself failed 2 times; see its log",
    ]


def test_projects_are_shown_if_there_are_any():
    shown = status({"projects": [{"root": "/home/me/x", "endpoint": "/mcp/p1", "hosts": 2}]})
    assert shown.endswith("\nPROJECT     ENDPOINT  HOSTS\n/home/me/x  /mcp/p1       2")


def test_a_full_table_fits_a_hundred_columns():
    upstream = {
        "name": "a-long-name",
        "state": "reconnecting",
        "since_s": 7e5,
        "version": "2025-11-25",
        "transport": "stdio",
        "sessions": 32,
        "mode": "interactive",
        "counts": {"tools": 1000, "prompts": 10, "resources": 100_000, "templates": 10},
        "last_error": "word " * 100,
        "degraded": ["many words " * 30],
    }
    assert max(map(len, status({"upstreams": [upstream]}).split("\n"))) <= 100


def test_records():
    line = record(JournalRecord(0, "stderr", "it \x1b[31mfell", 7))
    assert re.fullmatch(r"19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d  stderr  it \\x1b\[31mfell", line)
    assert record(JournalRecord(0, "log", "x")).endswith("  log     x")


def test_status():
    assert status(STATUS) == (
        "hubd 1.2.3, up 3 min\n"
        "\n"
        "UPSTREAM  STATE      AGE  VERSION     VIA    SESSIONS       TOOLS  PROMPTS  RESOURCES  TMPL\n"
        "files     connected  3 h  2025-11-25  stdio  3 interactive     14        0          3     1\n"
        "    2 calls wait for an answer of a host\n"
        "    1 question refused: nobody can tell which host it is for\n"
        "broken    failed     -    -           -      -                  -        -          -     -\n"
        "    exit 1:\\x1b[31m no\n"
        "    | last words on stderr\n"
        "    retried on the next call; `hubd restart broken` retries now\n"
        "    degraded: too many tools\n"
        "    restarted 5 times\n"
        "\n"
        "HOST                  TRANSPORT  VERSION     ENDPOINT  ATTACHED  IDLE  RUNNING  QUESTIONS\n"
        "Claude (claude-code)  unix       2025-06-18  /mcp      2 h       0 s         3          1\n"
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


@pytest.mark.covers("I-5")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "buffers hold 3 MiB of 256 MiB, 64 MiB at most so far"),
        (
            {"refused": 1, "evicted": 2},
            "buffers hold 3 MiB of 256 MiB, 64 MiB at most so far; full once; 2 slow peers were cut off",
        ),
    ],
)
def test_what_is_held_for_hosts_and_servers(more, said):
    facts = {"used": 3 << 20, "limit": 256 << 20, "highest": 64 << 20, "refused": 0, "evicted": 0, **more}
    assert said in status({**STATUS, "buffer": facts}).splitlines()
