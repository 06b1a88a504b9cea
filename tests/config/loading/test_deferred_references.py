"""`${secret:}`, `${credential:}` and `${cmd:}` in files: where they count, and what they are after loading."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from config.diagnostics import ConfigError
from config.diff import compare, config_key, source_of
from config.loading.assemble import load_all
from config.projects import load_project
from config.secret_references import Reference, in_headers, references_of, spell_references
from config.secrets.fill_secret_values import resolve_references
from config.settings import HubConfig

SERVER = '[upstreams.a]\ncommand = "true"\n'
URL = '[upstreams.a]\nurl = "https://example.com/mcp"\n'


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "state" / "hubd"
    directory.mkdir(parents=True, mode=0o700)
    return directory


def keep(state, **versions):
    path = state / "secrets.json"
    secrets = {name: {"version": version, "value": "x"} for name, version in versions.items()}
    path.write_text(json.dumps({"format": 1, "secrets": secrets}))
    path.chmod(0o600)


def load(tmp_path, text, partly=False, **environ):
    path = tmp_path / "hubd.toml"
    path.write_text(text)
    return load_all(path, environ, partly=partly)


def one(tmp_path, text, **environ):
    return load(tmp_path, text, **environ).config.upstreams["a"]


def test_they_stay_in_all_texts_of_a_server(state, tmp_path):
    keep(state, K="ab")
    text = SERVER + 'args = ["--key=${secret:K}", "${cmd:pass show x}"]\nenv = { T = "a${credential:c}b" }\n'
    config = one(tmp_path, text)
    assert references_of(config) == (
        Reference("secret", "K", "ab"),
        Reference("cmd", "pass show x"),
        Reference("credential", "c"),
    )
    filled = resolve_references(config, {each: each.kind.upper() for each in references_of(config)})
    assert filled.args == ("--key=SECRET", "CMD")
    assert filled.env["T"].reveal() == "aCREDENTIALb"
    assert sorted(value.reveal() for value in filled.read) == ["CMD", "CREDENTIAL", "SECRET"]
    assert "CREDENTIAL" not in repr(filled)
    assert not in_headers(config)


def test_urls_headers_command_and_cwd_hold_them_too(state, tmp_path):
    keep(state, K="ab")
    config = one(tmp_path, URL.replace("/mcp", "/${secret:K}") + 'headers = { Authorization = "Bearer ${secret:K}" }\n')
    assert in_headers(config)
    filled = resolve_references(config, {Reference("secret", "K", "ab"): "v"})
    assert (filled.url, filled.headers["Authorization"].reveal()) == ("https://example.com/v", "Bearer v")
    whole = one(tmp_path, '[upstreams.a]\nurl = "${secret:K}"\n')
    assert spell_references(whole.url or "") == "${secret:K}"
    config = one(tmp_path, '[upstreams.a]\ncommand = "${cmd:which a/b}"\ncwd = "${credential:c}"\n')
    assert (spell_references(config.command or ""), spell_references(config.cwd or "")) == (
        "${cmd:which a/b}",
        "${credential:c}",
    )


def test_what_comes_in_is_no_reference(state, tmp_path):
    (tmp_path / "file").write_text("${cmd:id}")
    text = SERVER + 'args = ["$${cmd:id}", "${V}", "${N:-${cmd:id}", "${file:file}"]\n'
    with pytest.raises(ConfigError):
        one(tmp_path, text, V="${cmd:id}")
    text = SERVER + 'args = ["$${cmd:id}", "${V}", "${file:file}"]\n'
    config = one(tmp_path, text, V="${cmd:id}")
    assert config.args == ("${cmd:id}",) * 3
    assert references_of(config) == ()


FORGED = "\0cmd::id\0"


def test_a_mark_cannot_be_forged(state, tmp_path):
    escaped = FORGED.replace("\0", "\\u0000")
    (tmp_path / "file").write_text(FORGED)
    (tmp_path / "env").write_text(f"X={FORGED}\n")
    for text in (f'args = ["{escaped}"]', f'env = {{ X = "{escaped}" }}', 'args = ["${file:file}"]'):
        with pytest.raises(ConfigError, match="NUL character"):
            one(tmp_path, f"{SERVER}{text}\n")
    host = tmp_path / "servers.json"
    host.write_text(json.dumps({"mcpServers": {"a": {"command": "true", "envFile": str(tmp_path / "env")}}}))
    with pytest.raises(ConfigError, match="NUL character"):
        load_all(host, {})
    with pytest.raises(ConfigError, match=r"expected an address|NUL"):
        one(tmp_path, f'[upstreams.a]\nurl = "https://example.com/{escaped}"\n')


@pytest.mark.parametrize(
    "text",
    [
        'token = "${secret:K}"\n',
        '[cache]\nurl = "redis://h:1/0"\npassword = "${cmd:id}"\n',
        'sealing_key = "${credential:k}"\n',
    ],
)
def test_elsewhere_they_are_mistakes_that_name_a_file(state, tmp_path, text):
    with pytest.raises(ConfigError, match=r"counts only in the settings of servers: write \$\{file:path\} here"):
        load(tmp_path, text + SERVER)


def test_a_mistake_in_one_names_file_and_line(state, tmp_path):
    with pytest.raises(ConfigError, match=r"hubd\.toml, line 3: upstreams\.a\.args: .*no closing quotation"):
        load(tmp_path, SERVER + 'args = ["${cmd:op \'x}"]\n')


def test_a_project_runs_no_command_and_may_name_secrets(state, tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    file = root / ".hubd.toml"
    file.write_text(SERVER + 'args = ["${cmd:id}"]\n')
    with pytest.raises(ConfigError, match="counts only in your own files, not in those of a project"):
        load_project(root, {}, HubConfig())
    file.write_text(SERVER + 'args = ["${secret:K}"]\n')
    project = load_project(root, {}, HubConfig())
    assert [str(each) for each in references_of(project.upstreams["a"])] == ["${secret:K}"]
    before = project.digest
    keep(state, K="12")
    project = load_project(root, {}, HubConfig())
    assert project.digest == before
    assert state / "secrets.json" in project.files


def test_one_that_is_not_kept_yet_is_a_warning_and_its_coming_a_change(state, tmp_path):
    loaded = load(tmp_path, SERVER + 'env = { T = "${secret:K}" }\n')
    assert [each.text for each in loaded.warnings] == [
        "there is no secret K yet: the server starts once `hubd secret set K` has kept it"
    ]
    assert state / "secrets.json" in loaded.files
    keep(state, K="12")
    again = load(tmp_path, SERVER + 'env = { T = "${secret:K}" }\n')
    assert again.warnings == ()
    change = compare(loaded.config.upstreams["a"], again.config.upstreams["a"])
    assert change is not None
    assert (change.settings, change.replaces) == (("env",), True)


def test_an_unchanged_reference_is_no_change_and_a_changed_secret_is_one_of_its_servers_only(state, tmp_path):
    text = SERVER + 'args = ["${secret:K}", "${cmd:id}"]\n' + SERVER.replace(".a]", ".b]") + 'args = ["${secret:L}"]\n'
    keep(state, K="12", L="12")
    first = load(tmp_path, text).config.upstreams
    assert first == load(tmp_path, text).config.upstreams
    keep(state, K="34", L="12")
    second = load(tmp_path, text).config.upstreams
    assert first["a"] != second["a"]
    assert first["b"] == second["b"]
    assert config_key(first["a"]) == config_key(second["a"])
    assert source_of(first["a"]) != source_of(second["a"])


def test_a_file_of_secrets_that_cannot_be_used_costs_its_servers_only(state, tmp_path):
    keep(state, K="12")
    (state / "secrets.json").chmod(0o644)
    text = SERVER + 'args = ["${secret:K}"]\n' + SERVER.replace(".a]", ".b]")
    loaded = load(tmp_path, text, partly=True)
    assert list(loaded.config.upstreams) == ["b"]
    assert [each.unresolved for each in loaded.unresolved] == ["a"]
    assert "chmod 600" in loaded.unresolved[0].text


def test_nothing_is_shared_with_other_runs_where_nobody_knows_what_it_was(state, tmp_path):
    plain = one(tmp_path, SERVER)
    assert source_of(plain) == source_of(structs.replace(plain))
    config = one(tmp_path, SERVER + 'args = ["${cmd:id}"]\n')
    assert source_of(config) == source_of(one(tmp_path, SERVER + 'args = ["${cmd:id}"]\n'))
    assert source_of(config) != _in_another_run(config)


def _in_another_run(config):
    made = f"UpstreamConfig(command='true', cwd={config.cwd!r}, args=('\\0cmd::id\\0',))"
    code = f"from config.diff import *; print(source_of({made}))"
    argv = [sys.executable, "-c", code]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    ).stdout.strip()


def test_defaults_of_all_servers_hold_them_for_each(state, tmp_path):
    keep(state, K="ab")
    loaded = load(tmp_path, f'[defaults]\nenv = {{ T = "${{secret:K}}", U = "${{cmd:id}}" }}\n{SERVER}')
    assert loaded.warnings == ()
    config = loaded.config.upstreams["a"]
    assert references_of(config) == (Reference("secret", "K", "ab"), Reference("cmd", "id"))
    root = tmp_path / "project"
    root.mkdir()
    (root / ".hubd.toml").write_text(SERVER.replace(".a]", ".b]"))
    project = load_project(root, {}, loaded.config)
    assert references_of(project.upstreams["b"]) == references_of(config)
