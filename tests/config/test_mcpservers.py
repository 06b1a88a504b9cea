"""Hosts' own JSON files, in all the spellings they use."""

import json
from pathlib import Path

import pytest

from config.load import load
from config.mcpservers import parse
from config.schema import ConfigError, Secret, UpstreamConfig
from config.source import Problem

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


def read(tmp_path: Path, text: str) -> dict[str, UpstreamConfig]:
    path = tmp_path / "servers.json"
    path.write_text(text)
    return load(path, {"SET": "value"}).upstreams


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


def test_what_only_hosts_understand_is_passed_over(tmp_path):
    entry = '{"command": "x", "alwaysAllow": ["a"], "timeout": 60000, "trust": true, "disabledTools": [], "gallery": 1}'
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
    ids = [table.name for table in parse(text)]
    assert ids == ["my-server-7115", "my-server-b129", "my-server", "s3d", "modelcontextprot", "s", "sequential-think"]
    assert ids == [table.name for table in parse(text)]


def test_the_hub_s_own_entry_is_left_out():
    text = """{"mcpServers": {
        "hub": {"command": "/usr/local/bin/hubd", "args": ["connect", "--host", "x"]},
        "hub2": {"command": ["hubd", "connect"]},
        "other": {"command": "hubdx", "args": ["connect"]}
    }}"""
    assert [table.name for table in parse(text)] == ["other"]


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
        ('{"mcpServers": {"s": {"type": "ws", "url": "http://h"}}}', '"ws" is not supported'),
        ('{"mcpServers": {"s": {"url": "http://h",\n"headers": {"A": "${T}"}}}}', ", line 2: mcpServers.s.headers.A"),
        ('{"mcpServers": {"s": {"command": "x"}},\n,}', ", line 2: is not JSON at column 2"),
        ('{"theme": "dark"}', "holds no servers"),
        ("[]", "holds no servers"),
        ("[" * 100_000, "is not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, text, expected):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)


def test_comments_are_blanked_and_strings_are_not():
    [table] = parse('{"s": {"command": "http://x//y", "args": ["/* no */", "a,]", "\\"// \\\\"],}} // end')
    assert table.values == {"command": "http://x//y", "args": ["/* no */", "a,]", '"// \\']}


def test_a_file_env_is_not_read_and_said_so():
    [table] = parse('{"s": {"command": "x", "envFile": ".env"}}')
    assert "envFile is not read" in table.warnings[0]


def test_a_problem_carries_the_keys_of_the_file():
    with pytest.raises(Problem) as caught:
        parse('{"mcpServers": {"My_Server": {"type": "carrier pigeon", "url": "x"}}}')
    assert caught.value.keys == ("mcpServers", "My_Server", "type")
