"""What people see."""

import re

import pytest

from hub.cli.client.answers import result
from hub.cli.live.logs_command import record
from hub.cli.render import status as terminal
from hub.cli.render.words import about, duration
from hub.cli.tools_command import tool_lines
from hub.control import methods
from hub.control.methods import read
from tests.support.terminal import drawn, widest
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
            "tokens": 1139,
            "largest": {"name": "files__search_files", "tokens": 141},
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
            "tools": 14,
            "tokens": 1650,
        }
    ],
    "warnings": ["two tools share a name"],
}


def status(answer, **options):
    return drawn(*terminal.status(read(methods.STATUS, answer)), **options).removesuffix("\n")


def notes(**upstream):
    """The lines below the row of an upstream."""
    shown = status({"upstreams": [{"name": "time", **upstream}]})
    return [line[4:] for line in shown.splitlines()[5:] if line.startswith("    ")]


def test_past_trouble_of_a_running_upstream_is_told_as_past():
    error = "killed by SIGKILL\nnoise"
    found = notes(state="connected", last_error=error, last_error_ago_s=130.0, restarts=1)
    assert found == ["last error: killed by SIGKILL (2 min ago)", "restarted once"]


def test_trouble_of_an_upstream_on_its_way_is_told_as_it_is():
    assert notes(state="reconnecting", last_error="exit 1") == ["exit 1"]


def test_a_limited_upstream_tells_who_waits():
    assert notes(state="connected", limits={"running": 4, "waiting": 12}) == ["limited: 4 running, 12 waiting"]


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


@pytest.mark.covers("FH-3")
def test_a_server_that_is_being_installed_says_so_and_for_how_long():
    row = {"name": "time", "state": "connecting", "since_s": 55.0, "installing": True, "installing_s": 40.4}
    shown = status({"upstreams": [row]})
    assert "1 server: 1 installing" in shown
    assert "installing 40 s" in shown
    assert notes(state="connecting", queued=True) == ["other servers are being installed first"]


def test_who_waits_for_a_call_says_so():
    assert notes(state="idle") == ["started by the first call that needs it"]
    now = "`hubd restart time` retries now"
    unknown = f"retried every 5 min, and when its settings change; {now}"
    assert notes(state="failed", last_error="no") == ["no", unknown]
    counts = {"tools": 1, "prompts": 0, "resources": 0, "templates": 0}
    assert notes(state="failed", last_error="no", counts=counts) == ["no", f"retried on the next call; {now}"]


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
    assert shown[-2:] == ["warning: odd \\x1b[31mkey", "warning: the hub itself failed 2 times; see `hubd logs`"]


def test_projects_are_shown_if_there_are_any():
    shown = status({"projects": [{"root": "/home/me/x", "endpoint": "/mcp/p1", "hosts": 2}]})
    assert shown.endswith("\nPROJECT     ENDPOINT  HOSTS\n/home/me/x  /mcp/p1       2")


FULL = {
    "version": "1.2.3",
    "listen": {"url": "http://127.0.0.1:8765/mcp", "socket": "/run/user/1000/hubd/hubd.sock"},
    "upstreams": [
        {
            "name": name,
            "state": state,
            "since_s": 7e5,
            "version": "2025-11-25",
            "transport": "stdio",
            "sessions": 32,
            "mode": "interactive",
            "counts": {"tools": 1000, "prompts": 10, "resources": 100_000, "templates": 10},
            "last_error": "word " * 100,
            "degraded": ["many words " * 30],
        }
        for name, state in [("sequential-thinking-of-opencode", "reconnecting"), ("日本語" * 8, "unauthorized")]
    ],
    "hosts": [
        {"host": "Visual Studio Code - Insiders", "label": "vscode-insiders", "transport": "unix", "attached_s": 7e5}
        | {"version": "2025-11-25", "endpoint": "/mcp/@/home/me/a/long/path"}
    ],
    "projects": [{"root": "/home/me/" + "deep/" * 40, "endpoint": "/mcp/@p", "hosts": 1}],
    "warnings": ["many words " * 30],
}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_it_fits_the_screen(width):
    shown = status(FULL, width=width)
    assert widest(shown) <= width
    assert "sign-in needed" in shown
    assert "reconnecting" in shown
    head = next(line for line in shown.splitlines() if line.startswith("SERVER"))
    assert ("RESOURCES" in head, "TEMPLATES" in head) == (width > 60, width > 80)
    assert "sequential-thinking-of-" in shown


def test_broken_servers_come_first_and_each_group_is_in_order():
    states = {"b": "connected", "d": "failed", "a": "idle", "c": "unauthorized", "e": "disabled"}
    shown = status({"upstreams": [{"name": name, "state": state} for name, state in states.items()]})
    assert "5 servers: 1 sign-in needed, 1 failed, 1 idle, 1 connected, 1 disabled" in shown
    rows = [line.split()[0] for line in shown.splitlines() if line[:1] in states and line[1:2] == " "]
    assert rows == ["c", "d", "a", "b", "e"]


def test_a_server_that_is_slow_or_fails_says_so_in_its_row_and_why():
    states = {
        "a": {},
        "b": {"slow": "one call in twenty takes 5 s or more"},
        "c": {"failing": "20 % of its calls fail"},
    }
    rows = [{"name": name, "state": "connected", **more} for name, more in states.items()]
    lines = [line.partition("  -")[0].strip() for line in status({"upstreams": rows}).splitlines()]
    assert lines[2] == "3 servers: 3 connected"
    assert [line.split()[:3] for line in lines[5:10:2]] == [
        ["b", "connected,", "slow"],
        ["c", "connected,", "failing"],
        ["a", "connected"],
    ]
    assert lines[6] == "slow: one call in twenty takes 5 s or more; see `hubd calls b`"
    assert lines[8] == "failing: 20 % of its calls fail; see `hubd calls c`"


def test_colours_tell_how_it_is():
    upstreams = [{"name": "a", "state": "connected"}, {"name": "b", "state": "failed", "last_error": "x\x1b[2J"}]
    shown = status({"upstreams": upstreams}, colour=True)
    assert "\x1b[32mconnected" in shown
    assert "\x1b[31mfailed" in shown
    assert "\x1b[2J" not in shown


def test_the_line_that_names_the_error_is_shown_not_the_end_of_a_stack_trace():
    trace = "Error: Cannot find module 'x'\n    at f (x.js:1)\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.18.1"
    found = notes(state="failed", last_error=f"time exited with status 1\n{trace}", last_error_ago_s=1)
    assert found[:2] == ["time exited with status 1 (1 s ago)", "| Error: Cannot find module 'x'"]
    assert "Node" not in "".join(found)


def test_http_hosts_that_may_be_gone_are_counted():
    gone = {"host": "mcporter", "label": "cli", "transport": "http", "idle_s": 61.0, "listening": False}
    others = [
        gone | {"listening": True, "host": "one"},
        gone | {"in_flight": 1, "host": "two"},
        gone | {"asked": 1, "host": "three"},
        gone | {"idle_s": 59.0, "host": "four"},
        gone | {"transport": "unix", "host": "five"},
        {name: value for name, value in gone.items() if name != "listening"} | {"host": "of-an-older-hub"},
    ]
    shown = status({"hosts": [gone, gone, gone | {"label": ""}, *others]}).splitlines()
    assert [line.split()[0] for line in shown[4:-1]] == [
        "HOST",
        "five",
        "four",
        "of-an-older-hub",
        "one",
        "three",
        "two",
    ]
    assert shown[-1] == "3 HTTP hosts without a stream or a call for a minute: mcporter, mcporter (cli) (2)"


def test_records():
    line = record(JournalRecord(0, "stderr", "it \x1b[31mfell", 7)).plain
    assert re.fullmatch(r"19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d  stderr  it \\x1b\[31mfell", line)
    assert record(JournalRecord(0, "log", "x")).plain.endswith("  log     x")
    assert record(JournalRecord(0, "exit", "x", None, "time"), 8).plain.endswith("  time      exit     x")


def test_status():
    assert status(STATUS) == (
        "hubd 1.2.3, up 3 min\n"
        "\n"
        "2 servers: 1 failed, 1 connected\n"
        "\n"
        "SERVER  STATE      AGE  TRANSPORT  VERSION     SESSIONS  SHARING      TOOLS  TOKENS  PROMPTS  RESOURCES"
        "  TEMPLATES\n"
        "broken  failed     -    -          -                  -  -                -       -        -          -"
        "          -\n"
        "    exit 1:\\x1b[31m no\n"
        "    | last words on stderr\n"
        "    retried every 5 min, and when its settings change; `hubd restart broken` retries now\n"
        "    degraded: too many tools\n"
        "    restarted 5 times\n"
        "files   connected  3 h  stdio      2025-11-25         3  interactive     14  ~1 100        0          3"
        "          1\n"
        "    2 calls wait for an answer of a host\n"
        "    1 question refused: nobody can tell which host it is for\n"
        "\n"
        "HOST                  TRANSPORT  VERSION     ENDPOINT  ATTACHED  IDLE  RUNNING  QUESTIONS  TOOLS  TOKENS\n"
        "Claude (claude-code)  unix       2025-06-18  /mcp      2 h       0 s         3          1     14  ~1 600\n"
        "\n"
        "warning: two tools share a name"
    )


def test_an_empty_hub():
    none = "no servers; `hubd import` takes over those of your hosts, `hubd add` adds one"
    assert status({}) == f"hubd ?, up 0 s\n\n{none}\n\nno hosts attached"
    assert tool_lines([]) == []
    assert result({}) == ""


def test_tools_are_one_line_each():
    entries = [
        {"name": "a__b", "description": "First line.\nSecond."},
        {"name": "a__long", "description": "x" * 200},
        {"name": "c", "title": "A title"},
        {"name": "d"},
    ]
    lines = ["a__b     First line.", "a__long  " + "x" * 200, "c        A title", "d        -"]
    assert drawn(*tool_lines(entries)).splitlines() == lines
    lines[1] = lines[1][:79] + "…"
    assert drawn(*tool_lines(entries), width=80).splitlines() == lines


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


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "~0"), (7, "~7"), (13, "~13"), (145, "~140"), (4139, "~4 100"), (91_427, "~91 000")]
)
def test_an_estimate_has_two_digits(count, shown):
    assert about(count) == shown


def test_small_parts():
    assert [duration(seconds) for seconds in (0.4, 119, 120, 7200, 200_000)] == ["0 s", "119 s", "2 min", "2 h", "2 d"]


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
