"""Server ids: one rule for files, imports and commands."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.diagnostics import ConfigError, EditError
from config.editing.draft_across_files import Draft
from config.loading.assemble import load_all
from config.projects import load_project
from config.server_names import (
    MAX_ID,
    derive_ids,
    id_of_url,
    is_reserved,
    is_server_id,
    is_usable,
    short_id,
    suggest_id,
)
from config.settings import HubConfig, UpstreamConfig

LONGEST = "a" * 15 + "-" + "b" * 16
NAMES = st.text(min_size=1, max_size=40) | st.from_regex(r"[A-Za-z][A-Za-z0-9_ -]{0,40}", fullmatch=True)


@pytest.mark.covers("FH-11")
def test_ids_have_up_to_32_characters():
    assert MAX_ID == len(LONGEST) == 32
    for name in ("sequential-thinking", "context7", LONGEST):
        assert is_server_id(name)
        assert suggest_id(name) == short_id(name) == derive_ids([name])[name] == name
    assert not is_server_id(LONGEST + "b")
    assert not is_usable(LONGEST + "b")


@given(st.lists(NAMES, unique=True, max_size=6), st.sampled_from([16, MAX_ID]))
def test_derived_ids_are_legal_and_differ(names, length):
    ids = derive_ids(names, length)
    assert all(is_server_id(id) and len(id) <= length and not is_reserved(id) for id in ids.values())
    assert len({id.replace("-", "_") for id in ids.values()}) == len(names)
    assert derive_ids(ids.values(), length) == {id: id for id in ids.values()}, "legal ones stay"


def written(tmp_path, main, **others):
    (tmp_path / "hubd.toml").write_text(main)
    for name, servers in others.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"mcpServers": servers}))
    return load_all(tmp_path / "hubd.toml", {}, partly=True)


INCLUDE = 'include = ["host*.json"]\n'
LONG = {"sequential-thinking": {"command": "x"}}


@pytest.mark.covers("FH-11")
def test_an_id_of_a_host_s_file_that_changed_keeps_the_old_one_as_alias(tmp_path):
    upstreams = written(tmp_path, INCLUDE, host={**LONG, "Files": {"command": "y"}}).config.upstreams
    assert upstreams["sequential-thinking"].aliases == ("sequential-think",)
    assert upstreams["files"].aliases == ()


@pytest.mark.parametrize(
    "more",
    [
        "[upstreams.sequential-think]\ndisabled = true\n",
        '[upstreams.x]\ncommand = "x"\naliases = ["sequential-think"]\n',
        '[upstreams.sequential-thinking]\ncommand = "mine"\n',
    ],
)
def test_an_id_that_other_files_mean_stays(tmp_path, more):
    if "aliases" in more:
        with pytest.raises(ConfigError, match="is taken"):  # as before
            written(tmp_path, INCLUDE + more, host=LONG)
        return
    found = written(tmp_path, INCLUDE + more, host=LONG).config.upstreams
    assert found["sequential-think"].command == "x"
    assert found["sequential-think"].disabled == ("disabled" in more)


@pytest.mark.parametrize(
    ("mine", "name", "aliases"),
    [("x", "sequential-thinking", ("sequential-think",)), ("sequential-think", "sequential-think", ())],
)
def test_a_project_s_server_never_takes_a_name_of_mine_as_alias(tmp_path, mine, name, aliases):
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": LONG}))
    base = HubConfig(upstreams={mine: UpstreamConfig(command="y")})
    assert {key: each.aliases for key, each in load_project(tmp_path, {}, base).upstreams.items()} == {name: aliases}


def test_adding_a_long_name_says_nothing(tmp_path):
    main = tmp_path / "hubd.toml"
    main.write_text("")
    draft = Draft(main, {})
    draft.add("sequential-thinking", {"command": "x"})
    assert draft.problems() == draft.warnings("sequential-thinking") == []
    for name, why in (("a" * 33, "at most 32 characters"), ("hub", "name of the hub itself")):
        with pytest.raises(EditError, match=why):
            draft.add(name, {"command": "x"})


@pytest.mark.parametrize(
    "line", ["[upstreams.hub]", '[upstreams.a]\nprefix = "hub"', '[upstreams.a]\naliases = ["Hub"]']
)
def test_the_hub_s_own_name_leaves_a_server_out_and_no_other(tmp_path, line):
    text = f'{line}\ncommand = "x"\n[upstreams.b]\ncommand = "y"\n'
    found = written(tmp_path, text)
    assert list(found.config.upstreams) == ["b"]
    (problem,) = found.unresolved
    assert "is the name of the hub itself" in problem.text
    assert problem.line
    assert tomllib.loads(text)
    with pytest.raises(ConfigError, match="name of the hub itself"):
        load_all(tmp_path / "hubd.toml", {})


def test_a_host_s_server_called_hub_gets_another_name(tmp_path):
    (name,) = written(tmp_path, INCLUDE, host={"hub": {"command": "x"}}).config.upstreams
    assert name.startswith("hub-")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.linear.app/mcp", "linear"),
        ("https://api.githubcopilot.com/mcp/", "githubcopilot"),
        ("https://docs.mcp.cloudflare.com/sse", "cloudflare"),
        ("https://huggingface.co/mcp", "huggingface"),
        ("https://a.example.co.uk/", "example"),
        ("https://notes.workers.dev/mcp", "notes"),
        ("https://mcp.run/", "mcp"),
        ("https://hub.example/", "hub-2"),
        ("https://taken.example/", "taken-2"),
        ("http://localhost:3000/mcp", "local-3000"),
        ("http://[::1]:8/", "local-8"),
        ("http://192.0.2.1/", "local"),
        ("http://notes/mcp", "notes"),
        ("https://9to5.example/", "s9to5"),
    ],
)
def test_a_url_is_named_after_whose_it_is(url, name):
    assert id_of_url(url, ["taken"]) == name
    assert is_server_id(name)


@pytest.mark.parametrize("url", ["https://", "https://[::1/", "https://a:x/", "https://../", "nonsense"])
def test_what_has_no_host_gets_no_name(url):
    with pytest.raises(ValueError, match=r"."):
        id_of_url(url)


@given(st.from_regex(r"https://[a-z0-9_-][a-zA-Z0-9._-]{0,80}/", fullmatch=True))
def test_every_host_gives_a_legal_name(url):
    name = id_of_url(url, ["x"])
    assert is_server_id(name)
    assert not is_reserved(name)
