"""Hosts' own JSON files, in all the spellings they use."""

import json
import re
from pathlib import Path

import pytest

import config
from config.diagnostics import ConfigError, Findings
from config.loading.assemble import load_all
from config.loading.document import parse
from config.loading.translate_host_entry import HOSTS_OWN, OUR_SETTINGS
from config.loading.translate_host_file import FieldTable, command_of, is_hub, servers
from config.setting_declarations import Secret
from config.settings import UpstreamConfig

HOSTS = {
    "claude": '{"mcpServers": {"s": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}',
    "typed": '{"mcpServers": {"s": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}',
    "vscode": """{
        // comment with "quotes" and , ]
        "inputs": [],
        "servers": { "s": { "type": "stdio", "command": "npx", "args": ["-y", "x",], /* , } */ "env": {"K": "v"}, }},
    }""",
    "vscode settings": '{"mcp": {"servers": {"s": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}}',
    "zed": '{"context_servers": {"s": {"source": "custom", "command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}',
    "older zed": '{"context_servers": {"s": {"command": {"path": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}}}',
    "opencode": '{"mcp": {"s": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"K": "v"}}}}',
    "goose": '{"extensions": {"s": {"type": "stdio", "cmd": "npx", "args": ["-y", "x"], "envs": {"K": "v"}}}}',
    "bare": '{"s": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}}',
}  # fmt: skip


def found(text: str, name: str = "servers.json") -> tuple[list[FieldTable], Findings]:
    findings = Findings(Path(name))
    document = parse(text, Path(name))
    findings.line = document.line
    return servers(document.tree, findings), findings


def read(tmp_path: Path, text: str) -> dict[str, UpstreamConfig]:
    path = tmp_path / "servers.json"
    path.write_text(text)
    return load_all(path, {"SET": "value"}).config.upstreams


@pytest.mark.parametrize("host", HOSTS)
def test_a_program_in_every_host_s_form(tmp_path, host):
    expected = UpstreamConfig(command="npx", args=("-y", "x"), env={"K": Secret("v")}, cwd=str(tmp_path))
    assert read(tmp_path, HOSTS[host]) == {"s": expected}


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ('{"url": "https://h/mcp", "headers": {"A": "b"}}', "auto"),
        ('{"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}}', "http"),
        ('{"type": "streamable-http", "url": "https://h/mcp", "headers": {"A": "b"}}', "http"),
        ('{"type": "streamableHttp", "url": "https://h/mcp", "headers": {"A": "b"}}', "http"),
        ('{"type": "streamable_http", "uri": "https://h/mcp", "headers": {"A": "b"}}', "http"),
        ('{"transport": "sse", "url": "https://h/mcp", "headers": {"A": "b"}}', "sse"),
        ('{"type": "remote", "url": "https://h/mcp", "headers": {"A": "b"}}', "auto"),
        ('{"serverUrl": "https://h/mcp", "headers": {"A": "b"}}', "auto"),
        ('{"httpUrl": "https://h/mcp", "http_headers": {"A": "b"}}', "auto"),
        ('{"type": "http", "command": "x", "args": ["y"], "url": "https://h/mcp", "headers": {"A": "b"}}', "http"),
    ],
)
def test_a_url_in_every_host_s_form(tmp_path, entry, transport):
    expected = UpstreamConfig(url="https://h/mcp", headers={"A": Secret("b")}, transport=transport)
    assert read(tmp_path, f'{{"mcpServers": {{"s": {entry}}}}}') == {"s": expected}


@pytest.mark.covers("EW-1")
@pytest.mark.parametrize("kind", ["ws", "websocket", "WebSocket"])
def test_a_websocket_in_a_host_s_file(tmp_path, kind):
    expected = UpstreamConfig(url="wss://h/mcp", transport="ws")
    assert read(tmp_path, f'{{"mcpServers": {{"s": {{"type": "{kind}", "url": "wss://h/mcp"}}}}}}') == {"s": expected}


def test_what_only_hosts_understand_is_passed_over(tmp_path):
    entry = '{"command": "x", "alwaysAllow": ["a"], "disabledTools": [], "gallery": 1, "unheard": 1}'
    expected = UpstreamConfig(command="x", cwd=str(tmp_path))
    assert read(tmp_path, f'{{"mcpServers": {{"s": {entry}}}, "theme": "dark"}}') == {"s": expected}


def test_what_only_hubd_understands_is_read(tmp_path):
    entry = '{"command": "x", "prefix": "", "era": "legacy", "timeouts": {"call": 5}}'
    found = read(tmp_path, f'{{"mcpServers": {{"s": {entry}}}}}')["s"]
    assert (found.prefix, found.era, found.timeouts.call) == ("", "legacy", 5.0)
    entry = '{"command": "x", "session_mode": "singleton", "roots": ["file:///a"], "tasks": "off", "apps": true}'
    found = read(tmp_path, f'{{"mcpServers": {{"s": {entry}}}}}')["s"]
    assert (found.session_mode, found.roots, found.tasks, found.apps) == ("singleton", ("file:///a",), "off", True)


@pytest.mark.parametrize("entry", ['"disabled": true', '"enabled": false'])
def test_disabled_in_either_sense(tmp_path, entry):
    assert read(tmp_path, f'{{"mcpServers": {{"s": {{"command": "${{UNSET}}", {entry}}}}}}}')["s"].disabled


def test_variables_and_numbers_in_an_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    env = '{"A": "${SET}", "B": "${env:SET}", "C": 8080, "D": true, "E": "${userHome}/x"}'
    found = read(tmp_path, f'{{"mcpServers": {{"s": {{"command": "x", "env": {env}}}}}}}')["s"].env
    values = {name: value.reveal() for name, value in found.items()}
    assert values == {"A": "value", "B": "value", "C": "8080", "D": "true", "E": "/home/me/x"}


def test_names_become_legal_ids_that_do_not_meet():
    names = [
        "My_Server",
        "my server",
        "my-server",
        "3d",
        "modelcontextprotocol/server-filesystem",
        "日本",
        "Sequential-Thinking",
    ]
    text = json.dumps({name: {"command": "x"} for name in names})
    ids = [table.name for table in found(text)[0]]
    assert ids == [
        *("my-server-7115", "my-server-b129", "my-server", "s3d", "modelcontextprotocol-server-file", "s"),
        "sequential-thinking",
    ]
    assert ids == [table.name for table in found(text)[0]]


def test_the_hub_s_own_entry_is_left_out():
    text = """{"mcpServers": {
        "hub": {"command": "/usr/local/bin/hubd", "args": ["connect", "--host", "x"]},
        "hub2": {"command": ["hubd", "connect"]},
        "hub3": {"command": {"path": "hubd", "args": ["serve"]}},
        "other": {"command": "hubdx", "args": ["connect"]},
        "another": {"command": "hubd", "args": ["call"]}
    }}"""
    assert [table.name for table in found(text)[0]] == ["other", "another"]


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"command": []}, {"command": {"path": []}}, {"args": ["connect"]}])
def test_an_entry_that_starts_nothing_does_not_start_the_hub(entry):
    assert command_of(entry) == []
    assert not is_hub(entry)


@pytest.mark.covers("F-C-01")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"mcpServers": {\n"s": {"comand": "x"}}}', ', line 2: mcpServers.s.comand: a server has `command` or `url`'),
        ('{"mcpServers": {"s": {}}}', "mcpServers.s: a server has `command` or `url`"),
        ('{"mcpServers": {"s": []}}', "mcpServers.s: expected an object"),
        ('{"mcpServers": {"s": {"command": []}}}', "mcpServers.s.command: is empty"),
        ('{"mcpServers": {"s": {"command": "x",\n "args": "y"}}}', ", line 2: mcpServers.s.args: expected a list"),
        ('{"mcpServers": {"s": {"command": "x", "env": {"A": null}}}}', "mcpServers.s.env.A: expected text"),
        ('{"mcpServers": {"s": {"env": {},\n"environment": {}, "command": "x"}}}', "says the same as `env`"),
        ('{"mcpServers": {"s": {"type": "wss2", "url": "http://h"}}}', '"wss2" is not supported'),
        ('{"mcpServers": {"s": {"type": "ws", "url": "http://h"}}}', '"ws" needs a `url` that begins with ws://'),
        ('{"mcpServers": {"s": {"url": "http://h",\n"headers": {"A": "${T}"}}}}', ", line 2: mcpServers.s.headers.A"),
        ('{"mcpServers": {"s": {"command": "x"}},\n,}', ", line 2: is not JSON at column 1: expected a name"),
        ('{"theme": "dark"}', "holds no servers"),
        ("[]", "holds no servers"),
        ("[" * 100_000, "nested more than 64 levels"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, text, expected):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)


def test_comments_are_blanked_and_strings_are_not():
    [[table], _] = found('{"s": {"command": "http://x//y", "args": ["/* no */", "a,]", "\\"// \\\\"],}} // end')
    assert table.values == {"command": "http://x//y", "args": ["/* no */", "a,]", '"// \\']}


def test_a_problem_carries_the_keys_and_the_line_of_the_file():
    _, findings = found('{"mcpServers": {\n"My_Server": {\n"type": "carrier pigeon", "url": "x"}}}')
    [problem] = findings.problems
    assert (problem.keys, problem.line) == (("mcpServers", "My_Server", "type"), 3)


@pytest.mark.parametrize(
    ("entry", "key", "text"),
    [
        ('"agrs": []', "agrs", 'did you mean "args"?'),
        ('"tool_timeout": {}', "tool_timeout", 'did you mean "tool_timeouts"?'),
        ('"disabledTools": "rm"', "disabledTools", "expected names of tools"),
        ('"tools": {"a": {"approval_mode": "approve"}}', "tools", "expected names of tools"),
        (f'"enabledTools": {json.dumps([f"t{at}" for at in range(2000)])}', "enabledTools", 'globs such as "read_*"'),
        ('"timeout": 5000', "timeout", '5000 may be seconds or milliseconds; write "timeouts": {"call": SECONDS}'),
    ],
)
def test_what_is_lost_is_said(entry, key, text):
    _, findings = found(f'{{"s": {{"command": "x",\n{entry}}}}}')
    [warning] = findings.warnings
    assert (warning.keys, warning.line) == (("s", key), 2)
    assert warning.text.startswith("ignored")
    assert warning.text.endswith(text)


@pytest.mark.parametrize(
    ("value", "seconds"), [("30", 30.0), ("999", 999.0), ("60000", 60.0), ("true", None), ('"5"', None), ("-1", None)]
)
def test_a_timeout_is_read_where_its_unit_is_clear(value, seconds):
    [[table], _] = found(f'{{"s": {{"command": "x", "timeout": {value}}}}}')
    assert table.values.get("timeouts") == (None if seconds is None else {"call": seconds})


def test_tables_do_not_show_their_values():
    [[table], _] = found('{"s": {"command": "x", "env": {"A": "c4n4ry"}}}')
    assert repr(table) == "<Table s: command, env>"


def test_a_new_setting_of_ours_changes_no_file_of_a_host():
    """The list of our settings that count there is closed: ask what hosts mean by a name before you add it."""
    assert set(OUR_SETTINGS) == {
        "across_principals", "aliases", "apps", "cache", "client_features", "era", "idle_stop_s", "locality", "ping_s",
        "prefix", "replace", "restart", "roots", "session_mode", "start", "tasks", "timeouts", "tool_timeouts",
    }  # fmt: skip
    assert set(OUR_SETTINGS) <= set(UpstreamConfig.__struct_fields__)
    readme = (Path(config.__file__).parent / "README.md").read_text(encoding="utf-8")
    said = readme.partition("may hold these settings of ours: ")[2].partition(". ")[0]
    assert set(re.findall(r"`(\w+)`", said)) == set(OUR_SETTINGS)
    assert not OUR_SETTINGS & HOSTS_OWN


def test_what_hosts_keep_for_themselves_is_passed_over():
    own = {key: {"any": "thing"} for key in sorted(HOSTS_OWN - {"enabled", "type", "transport", "transportType"})}
    [table], findings = found(json.dumps({"mcpServers": {"s": {"command": "npx", **own}}}))
    assert table.values == {"command": "npx"}
    assert not findings.problems
    assert not findings.warnings
