"""A file of every host, as it might lie on a disk, and what hubd makes of it."""

import shutil
from pathlib import Path

import pytest
from msgspec import structs

from config.loading.assemble import load_all
from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig

DIALECTS = Path(__file__).parents[2] / "data" / "dialects"
ENVIRON = {"TOKEN": "t0ken"}
WEB = "https://example.com/mcp"


def program(*args: str, env: dict[str, str] | None = None, **settings: object) -> UpstreamConfig:
    secrets = {name: Secret(value) for name, value in (env or {}).items()}
    return structs.replace(UpstreamConfig(command="npx", args=args, env=secrets, cwd="HERE"), **settings)


def remote(url: str = WEB, /, **settings: object) -> UpstreamConfig:
    headers = {name: Secret(value) for name, value in settings.pop("headers", {}).items()}
    return structs.replace(UpstreamConfig(url=url, headers=headers), **settings)


HOSTS = {
    "claude_desktop_config.json": {"files-here": program("-y", "server-files", "/home/me", env={"LEVEL": "1"})},
    "claude.json": {
        "files": program("-y", "server-files", env={"KEY": "none"}),
        "web": remote(headers={"Authorization": "Bearer t0ken"}, transport="http", timeouts=Timeouts(call=120.0)),
        "old": remote("https://example.com/sse", transport="sse"),
    },
    "cursor.json": {
        "files": program(
            env={"A": "plain", "B": "own", "C": "with space\nand line", "D": "single # not a comment", "E": ""},
            command="/home/me/bin/server",
        ),
        "web": remote(headers={"X-Key": "t0ken"}),
    },
    "vscode.json": {
        "files": program("-y", "server-files"),
        "web": remote(headers={"X-Key": "t0ken"}, transport="http"),
    },
    "copilot.json": {"files": program("-y", "server-files"), "web": remote(transport="http", tools=("search",))},
    "windsurf.json": {"web": remote(headers={"X-Key": "from a file"}, tools=("!rm",)), "off": program(disabled=True)},
    "zed.json": {
        "files": program("-y", "server-files"),
        "older": program("old", env={"K": "v"}),
        "web": remote(headers={"X-Key": "k"}),
    },
    "junie.json": {"files": program("-y", "server-files")},
    "cline_mcp_settings.json": {
        "files": program(timeouts=Timeouts(call=3600.0)),
        "web": remote(transport="http", timeouts=Timeouts(call=60.0)),
    },
    "roo.json": {
        "files": program(cwd="HERE/work", timeouts=Timeouts(call=1800.0)),
        "web": remote(headers={"X-Key": "t0ken"}, transport="http"),
    },
    "continue.yaml": {
        "files": program("-y", "server-files", env={"KEY": "t0ken", "PORT": "8080"}),
        "web": remote(headers={"X-Key": "t0ken"}, transport="http"),
    },
    "goose.yaml": {
        "files": program(
            "-y", "server-files", env={"LEVEL": "1", "TOKEN": "t0ken"}, timeouts=Timeouts(call=1200.0)
        ),
        "web": remote(transport="http", disabled=True),
    },
    "lmstudio.json": {"web": remote(headers={"X-Key": "k"})},
    "codex.toml": {
        "files": program(
            "-y", "server-files", env={"LEVEL": "1", "TOKEN": "t0ken"}, timeouts=Timeouts(start=20.0, call=90.5),
            tools=("read",),
        ),
        "web": remote(
            headers={"X-Plain": "p", "X-Key": "${TOKEN}", "Authorization": "Bearer ${TOKEN}"}, disabled=True
        ),
    },
    "gemini.json": {
        "files": program("t0ken", "a$b", "t0ken", timeouts=Timeouts(call=5.0), tools=("x",)),
        "web": remote(headers={"X-Key": "key t0ken"}),
    },
    "opencode.jsonc": {
        "files": program("-y", "server-files", env={"KEY": "t0ken"}, timeouts=Timeouts(list=5.0)),
        "web": remote(headers={"X-Key": "Bearer from a file"}),
    },
    "warp.json": {"files": program(cwd="/srv")},
    "kiro.json": {"files": program(env={"KEY": "t0ken"})},
}  # fmt: skip
DOUBTS = {
    "claude_desktop_config.json": (3, 'mcpServers."Files Here"', "is called"),
    "continue.yaml": (5, "mcpServers.0", "is called"),
}


@pytest.fixture
def directory(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", "/home/me")
    for path in DIALECTS.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def here(upstream: UpstreamConfig, directory: Path) -> UpstreamConfig:
    return structs.replace(upstream, cwd=upstream.cwd and upstream.cwd.replace("HERE", str(directory)))


def test_there_is_a_fixture_of_every_host():
    assert {path.name for path in DIALECTS.iterdir()} == HOSTS.keys() | {"vars.env", "secret"}


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_s_file_is_read_as_it_is(directory, name):
    loaded = load_all(directory / name, ENVIRON)
    assert loaded.config.upstreams == {key: here(value, directory) for key, value in HOSTS[name].items()}
    assert loaded.sources == (directory / name,)
    assert loaded.directories == (), "what lies beside a host's file is the host's business"


@pytest.mark.parametrize("name", HOSTS)
def test_only_what_is_lost_is_mentioned(directory, name):
    found = load_all(directory / name, ENVIRON).warnings
    if name not in DOUBTS:
        assert found == ()
        return
    line, keys, text = DOUBTS[name]
    [warning] = found
    assert str(warning).startswith(f"{directory / name}, line {line}: {keys}: ")
    assert text in str(warning)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_s_file_counts_as_a_drop_in(directory, name):
    drop_ins = directory / "config" / "upstreams.d"
    drop_ins.mkdir(parents=True)
    for path in DIALECTS.iterdir():
        shutil.copy(path, drop_ins)
    for path in drop_ins.iterdir():
        if path.name in HOSTS and path.name != name:
            path.unlink()
    loaded = load_all(_main(drop_ins.parent), ENVIRON)
    assert loaded.config.upstreams == {key: here(value, drop_ins) for key, value in HOSTS[name].items()}


def _main(directory: Path) -> Path:
    path = directory / "hubd.toml"
    path.write_text("page_size = 0\n")
    return path


def test_what_values_say_is_traced_to_the_spelling_of_the_host(directory):
    origins = load_all(directory / "opencode.jsonc", ENVIRON).origins
    assert {keys[2:]: origin.line for keys, origin in origins.items() if keys[:2] == ("upstreams", "files")} == {
        (): 5,
        ("command",): 5,
        ("args",): 5,
        ("env",): 5,
        ("env", "KEY"): 5,
        ("timeouts",): 5,
        ("timeouts", "list"): 5,
    }


def test_the_files_that_values_come_from_are_watched_too(directory):
    assert directory / "vars.env" in load_all(directory / "cursor.json", ENVIRON).files
    assert directory / "secret" in load_all(directory / "windsurf.json", ENVIRON).files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nnot a line\n", "line 2 of {}/bad.env is not of the form KEY=VALUE"),
        (None, "cannot read {}/bad.env for bad.env: No such file or directory"),
    ],
)
def test_a_file_of_variables_that_cannot_be_read(directory, text, expected):
    if text is not None:
        (directory / "bad.env").write_text(text)
    path = directory / "bad.json"
    path.write_text('{"mcpServers": {"a": {"command": "x",\n"envFile": "bad.env"}}}')
    with pytest.raises(Exception, match="bad") as caught:
        load_all(path, {})
    assert str(caught.value) == f"{path}, line 2: mcpServers.a.envFile: {expected.format(directory)}"
