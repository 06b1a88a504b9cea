"""A configuration with a mistake while no hub runs: whatever is tried says file, line, what is wrong, what to do."""

import json

import pytest

from tests.hub.cli.configuration.test_make_change import Home

BROKEN = '[upstreams.time]\ncommand = "uvx"\nargs = "mcp-server-time"\n'
EDIT = "correct it there, or by `hubd edit`"


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    home.write(BROKEN)
    return home


@pytest.mark.parametrize(
    ("words", "code"),
    [(("serve",), 78), (("start",), 78), (("status",), 69), (("tools",), 78), (("connect",), 78), (("doctor",), 1)],
)
def test_whatever_is_tried_says_where_and_what_to_do(home, words, code):
    said = home.run(*words, code=code)
    assert f"{home.file}, line 3: upstreams.time.args" in said
    assert "expected a list, not text in quotes" in said
    assert EDIT in said
    assert "hubd: hubd:" not in said
    assert "did not start: hubd:" not in said
    assert said.count("expected a list") == 1


def test_status_says_so_to_programs_and_is_as_ever_where_nothing_is_wrong(home):
    error = json.loads(home.run("status", "--json", code=69).partition("\nhubd: ")[0])["error"]
    assert error["message"].startswith(
        f"no hub is running, and none starts until the configuration is right: {home.file}"
    )
    home.file.unlink()
    assert "`hubd start` starts one" in home.run("status", code=69)


def test_a_file_that_was_named_is_edited_by_its_name(home, tmp_path):
    (named := tmp_path / "other.toml").write_text("[upstreams")
    assert f"or by `hubd edit --config {named}`" in home.run("serve", "--config", str(named), code=78)
