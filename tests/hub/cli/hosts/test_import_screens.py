"""What `hubd import` takes: single servers by name, and one of several that are probably the same."""

import json
import tomllib

import pytest

from tests.support import host_commands
from tests.support.host_commands import hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD
from tests.support.terminal import Terminal, shown

PLAYWRIGHT = {"command": "npx", "args": ["-y", "@playwright/mcp@0.0.41"]}
HEADLESS = {"command": "npx", "args": ["-y", "@playwright/mcp@latest", "--headless", "--token", "hunter2hunter2"]}
NOTES = {"command": "notes"}


@pytest.fixture
def home(tmp_path):
    found = host_commands.home(tmp_path)
    for host, servers in (("kiro", {"web": PLAYWRIGHT, "notes": NOTES}), ("warp", {"browser": HEADLESS})):
        (found[0] / HOMES[host].path).write_text(json.dumps({"mcpServers": servers}, indent=2))
    return found


def imported(home):
    directory = home[0] / ".config" / "hubd" / "imported"
    texts = [path.read_text() for path in sorted(directory.glob("*.toml"))]
    return {name for text in texts for name in tomllib.loads(text)["upstreams"]}


def at_a_terminal(home, *arguments):
    return Terminal([HUBD, *arguments], home[1], cwd=home[0])


def test_where_nobody_is_asked_all_are_kept_and_it_is_said(home):
    found = told(home, "import", "kiro", "warp", "--secrets", "keep", "--yes")
    assert found["near_duplicates"] == [{"names": ["web", "browser"], "why": "the package @playwright/mcp"}]
    assert "web and browser are probably the same (the package @playwright/mcp); all are kept" in found["notes"]
    assert imported(home) == {"web", "notes", "browser"}
    assert "near_duplicates" not in told(home, "import", "kiro", "warp"), "it was decided"


@pytest.mark.parametrize(
    ("answers", "kept"), [(["\n"], {"web", "browser"}), (["3\n", "1\n"], {"web"}), (["2, 1\n"], {"web", "browser"})]
)
def test_at_a_terminal_one_is_asked_which_to_keep(home, answers, kept):
    with at_a_terminal(home, "import", "kiro", "warp", "--secrets", "keep") as terminal:
        at = 0
        for answer in answers:
            at = terminal.wait_for("Keep which.*:", at)
            terminal.type(answer)
        assert "1  web: npx -y @playwright/mcp@0.0.41 (Kiro)" in shown(terminal.output)
        assert "hunter2" not in terminal.output
        terminal.wait_for(r"Write[^?]*\?")
        terminal.type("y\n")
        code, said = terminal.end()
    assert code == 0
    assert imported(home) == {"notes", *kept}
    if kept == {"web"}:
        assert "duplicate of web" in shown(said)


def test_what_differs_in_variables_is_named_and_not_shown(home):
    for host, servers in (("kiro", {"web": PLAYWRIGHT}), ("warp", {"browser": {**PLAYWRIGHT, "env": {"TZ": "x-y-z"}}})):
        (home[0] / HOMES[host].path).write_text(json.dumps({"mcpServers": servers}, indent=2))
    with at_a_terminal(home, "import", "kiro", "warp", "--secrets", "keep") as terminal:
        at = terminal.wait_for("Keep which.*:")
        assert "also sets TZ" in shown(terminal.output)
        assert "x-y-z" not in terminal.output
        terminal.type("d\n")
        terminal.wait_for("The answers are: numbers from 1 to 2, or Enter", at)


def test_one_that_the_hub_has_may_stand_for_a_new_one(home):
    hubd(home, "import", "kiro")
    with at_a_terminal(home, "import", "warp", "--secrets", "keep") as terminal:
        terminal.wait_for("Keep which.*:")
        assert "1  web: npx -y @playwright/mcp@0.0.41 (the hub has it)" in shown(terminal.output)
        terminal.type("1\n")
        code, said = terminal.end()
    assert (code, imported(home)) == (0, {"web", "notes"})
    assert "hubd has it as web" in shown(said)


def test_no_answer_changes_nothing(home):
    with at_a_terminal(home, "import", "kiro", "warp", "--secrets", "keep") as terminal:
        terminal.wait_for("Keep which.*:")
        terminal.type("\x04")
        assert terminal.end()[0] == 2
    assert not (home[0] / ".config" / "hubd").exists()


def test_single_servers_are_taken_by_name(home):
    found = told(home, "import", "kiro", "claude-desktop", "--server", "notes", "--server", "Linear")
    assert {each["name"] for each in found["servers"]} == {"notes", "linear"}
    assert imported(home) == {"notes", "linear"}
    assert "no host has a server nots; did you mean" in hubd(home, "import", "kiro", "--server", "nots", code=2)
