"""Settings of sandboxes, budgets and schemas: their forms, what they may not say, and who may say it."""

import os

import pytest
from msgspec import structs

from config.diagnostics import ConfigError
from config.diff import compare
from config.loading.assemble import load_all
from config.loading.checks import upstream
from config.projects import load_project
from config.security_settings import AccessConfig, AccessToken, SamplingBudget, Sandbox
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig


@pytest.fixture
def load(tmp_path):
    def load(text, above=""):
        (tmp_path / "hubd.toml").write_text(f'{above}\n[upstreams.a]\ncommand = "x"\n{text}\n')
        return load_all(tmp_path / "hubd.toml", {"NOTES": "/srv/notes"}).config.upstreams["a"]

    return load


@pytest.mark.parametrize(
    ("text", "sandbox"),
    [
        ("", Sandbox()),
        ('sandbox = "own-home"', Sandbox(preset="own-home")),
        ('sandbox = { preset = "offline", memory_bytes = 5 }', Sandbox(preset="offline", memory_bytes=5)),
        ("sandbox.processes = 9", Sandbox(processes=9)),
    ],
)
def test_a_word_is_short_for_a_preset(load, text, sandbox):
    assert load(text).sandbox == sandbox


def test_paths_are_those_of_the_file(load, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = load('sandbox = { read = ["~/src", "here", "/there"], write = ["${NOTES}/x"] }').sandbox
    assert found.read == ("/home/me/src", str(tmp_path / "here"), "/there")
    assert found.write == ("/srv/notes/x",)


@pytest.mark.parametrize("default", ['sandbox = "shield"', 'sandbox = { preset = "shield" }'])
def test_defaults_are_joined_key_by_key(load, default):
    above = f"[defaults]\n{default}"
    assert load("", above).sandbox == Sandbox(preset="shield")
    assert load("sandbox = { memory_bytes = 5 }", above).sandbox == Sandbox(preset="shield", memory_bytes=5)
    assert load('sandbox = "off"', above).sandbox == Sandbox(preset="off")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('sandbox = "tight"', 'sandbox.preset: must be one of "auto", "off", "shield", "own-home", "offline"'),
        ("sandbox = 3", "sandbox: expected a table, not a whole number"),
        ('sandbox = { preset = "off", processes = 3 }', "sandbox.processes: needs a sandbox"),
        ("sandbox = { memory_bytes = -1 }", "sandbox.memory_bytes: must be a number of bytes, 0 for no limit"),
        ('sandbox = { read = ["${secret:X}"] }', "sandbox.read: holds a NUL character, or a reference"),
        ("sampling = { per_minute = 99_999 }", "sampling.per_minute: must be from 0 to 10000 questions"),
        ('elicitation = { url_hosts = ["a**************************b", ""] }', "elicitation.url_hosts: "),
        ('validate = "yes"', 'validate: must be one of "off", "strict"'),
    ],
)
def test_what_is_wrong_is_said(load, text, why):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert f"upstreams.a.{why}" in str(caught.value)


@pytest.mark.covers("POL-50")
def test_without_the_extra_no_server_can_be_strict(load, monkeypatch):
    assert load('validate = "strict"').validate_ == "strict"
    monkeypatch.setattr(upstream, "HAS_SCHEMAS", False)
    for name in ("validate", "validate_output"):
        with pytest.raises(ConfigError, match=rf"upstreams.a.{name}: .*pipx install --force '\.\[schema\]'"):
            load(f'{name} = "strict"')


@pytest.mark.parametrize("text", ['sandbox = "off"', "sampling = { per_minute = 99 }", "elicitation.allow = true"])
def test_a_project_may_not_say_it_of_a_server_of_the_user(tmp_path, text):
    base = HubConfig(upstreams={"a": UpstreamConfig(command="x", sandbox=Sandbox(preset="offline"))})
    (tmp_path / ".hubd.toml").write_text(f"[upstreams.a]\n{text}\n")
    with pytest.raises(ConfigError, match="is for your own configuration to say of your server"):
        load_project(tmp_path, os.environ, base)
    (tmp_path / ".hubd.toml").write_text(f'[upstreams.a]\ncommand = "y"\n{text}\n')
    load_project(tmp_path, os.environ, base)
    (tmp_path / ".hubd.toml").write_text("[upstreams.a]\ndisabled = true\n")
    assert load_project(tmp_path, os.environ, base).upstreams["a"].sandbox.preset == "offline"


def test_higher_walls_withdraw_what_the_old_server_may():
    def change(old, new):
        found = compare(UpstreamConfig(command="x", sandbox=old), UpstreamConfig(command="x", sandbox=new))
        return found.replaces, found.withdraws

    assert change(Sandbox(preset="shield"), Sandbox(preset="own-home")) == (True, True)
    assert change(Sandbox(preset="own-home"), Sandbox(preset="shield")) == (True, False)
    assert change(Sandbox(read=("/a", "/b")), Sandbox(read=("/a",))) == (True, True)
    assert change(Sandbox(read=("/a",)), Sandbox(read=("/a", "/b"))) == (True, False)


@pytest.mark.covers("POL-55")
def test_where_others_are_let_in_nobody_samples_unless_it_is_written(load):
    token = '[[access.tokens]]\nname = "b"\nprincipal = "bob"\ntoken = "0123456789abcdef"\n'
    assert load("").sampling == SamplingBudget()
    assert load("", token).sampling == SamplingBudget(allow=False)
    assert load("sampling.allow = true", token).sampling.allow is True


def test_who_is_let_in():
    mine, hers = (AccessToken(name="t", token=Secret("0" * 16), principal=who) for who in ("local", "ann"))
    config = HubConfig(access=AccessConfig(tokens=(mine,)))
    assert not config.serves_several
    assert structs.replace(config, access=AccessConfig(tokens=(mine, hers))).serves_several
    assert structs.replace(config, auth="proxy").serves_several
    assert not structs.replace(config, auth="none", access=AccessConfig(tokens=(hers,))).serves_several
