"""Rules of Claude Code that name tools: `hubd install` finds those that no longer match, and edits none."""

import json

import pytest

from tests.support import host_commands
from tests.support.host_commands import hubd, told
from tests.support.host_homes import HOMES

LONG = "a_tool_with_such_a_long_name_that_no_prefix_has_room_beside_it"


@pytest.fixture
def home(tmp_path):
    """A home where Claude Code has rules for its servers, in its settings, in a project, and in agents."""
    found = host_commands.home(tmp_path)
    directory = found[0]
    shop = directory / "shop"
    path = directory / HOMES["claude-code"].path
    servers = {"context7": {"command": "c7"}, "my notes": {"command": "notes"}, "other": {"command": "else"}}
    path.write_text(json.dumps({"mcpServers": servers, "projects": {str(shop): {}}}))
    for file, permissions in (
        (directory / ".claude/settings.json", {
            "allow": ["Bash(ls)", "mcp__context7__*", "mcp__context7__get-docs", "mcp__context7_", 7],
            "deny": ["mcp__my_notes", "Read(./.env)"],
        }),
        (shop / ".claude/settings.json", {"ask": [f"mcp__context7__{LONG}"], "deny": "mcp__context7"}),
        (shop / ".claude/settings.local.json", {"deny": ["mcp__other__drop*", "mcp__hub__other__drop*"]}),
    ):  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"permissions": permissions}))
    agents = directory / ".claude/agents"
    agents.mkdir()
    (agents / "reader.md").write_text("---\nname: r\ntools: Read, mcp__context7__get-docs\n---\nmcp__context7__no\n")
    (agents / "broken.md").write_bytes(b"\xff\x00")
    hubd(found, "import", "claude-code")
    return found


@pytest.mark.covers("FH-11")
def test_rules_are_said_with_their_new_spelling_and_denials_loudest(home):
    files = sorted(each for each in home[0].rglob("*") if each.is_file() and ".claude/" in str(each))
    before = [each.read_bytes() for each in files]
    found = told(home, "install", "claude-code")
    rules = [(each["list"], each["rule"], each["new"]) for each in found["permissions"]]
    assert rules[0] == ("deny", "mcp__my_notes", "mcp__hub__my-notes__*")
    assert set(rules[1:-1]) >= {
        ("allow", "mcp__context7__*", "mcp__hub__context7__*"),
        ("allow", "mcp__context7__get-docs", "mcp__hub__context7__get-docs"),
    }
    assert rules[-1] == ("agent", "mcp__context7__get-docs", "mcp__hub__context7__get-docs")
    (asked,) = [new for kind, rule, new in rules if kind == "ask"]
    assert asked.startswith("mcp__hub__context7__a_tool_")
    assert len(asked.removeprefix("mcp__hub__")) <= 50
    assert len(rules) == 5
    assert len(found["warnings"]) == 1
    assert "mcp__my_notes -> mcp__hub__my-notes__*" in found["warnings"][0]
    assert [each.read_bytes() for each in files] == before


def test_people_see_where_they_stand(home):
    said = hubd(home, "install", "claude-code", "--dry-run")
    warning = said[said.index("hubd: warning: Claude Code: these deny rules do not forbid") :]
    assert f"  {home[0]}/.claude/settings.json\n    deny: mcp__my_notes -> mcp__hub__my-notes__*\n" in warning
    assert f"  {home[0]}/shop/.claude/settings.json\n    ask: " in said


def test_what_keeps_its_names_needs_no_other_rules(home):
    path = home[0] / HOMES["claude-code"].path
    hubd(home, "import", "claude-code", "--disable-originals", "--without-hub", "--force", "*")
    found = told(home, "install", "claude-code", "--each")
    assert "permissions" not in found
    assert "warnings" not in found
    assert {"context7", "my notes", "other"} == json.loads(path.read_text())["mcpServers"].keys()


def test_a_rule_that_is_there_is_not_asked_for(home):
    path = home[0] / ".claude" / "settings.json"
    document = json.loads(path.read_text())
    document["permissions"]["deny"].append("mcp__hub__my-notes__*")
    document["permissions"]["allow"].append("mcp__hub")
    path.write_text(json.dumps(document))
    found = told(home, "install", "claude-code")
    assert {each["list"] for each in found["permissions"]} == {"ask", "agent"}
    assert "warnings" not in found


def test_settings_that_cannot_be_read_stop_nothing(home):
    path = home[0] / ".claude" / "settings.json"
    for text in ("{", "[]", '{"permissions": []}', '{"permissions": {"deny": {}}}', "[" * 9000):
        path.write_text(text)
        found = told(home, "install", "claude-code")
        assert {each["list"] for each in found["permissions"]} == {"ask", "agent"}
    path.unlink()
    path.mkdir()
    assert told(home, "install", "claude-code")["hosts"]


def test_an_alias_and_a_bare_server_count(home):
    config = home[0] / ".config/hubd/hubd.toml"
    config.write_text('[upstreams.my-notes]\nprefix = "n"\n[upstreams.context7]\nprefix = ""\n')
    rules = {each["rule"]: each["new"] for each in told(home, "install", "claude-code")["permissions"]}
    assert rules["mcp__my_notes"] == "mcp__hub__n__*"
    assert rules["mcp__context7__get-docs"] == "mcp__hub__get-docs"
    assert rules["mcp__context7__*"] == "mcp__hub__*"
