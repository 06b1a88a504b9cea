"""`hubd install` and `uninstall` on a terminal: they ask once, before anything is written."""

import pytest

from tests.support import host_commands
from tests.support.host_commands import contents, hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD
from tests.support.terminal import Terminal, shown


@pytest.fixture
def home(tmp_path):
    return host_commands.home(tmp_path)


def at_a_terminal(home, answer, *arguments):
    """The exit code of a command that asks, and what it wrote."""
    with Terminal([HUBD, *arguments], home[1], cwd=home[0], columns=1000) as terminal:
        terminal.wait_for(r"Write[^?]*\?\s+\[Y/n\]")
        terminal.type(answer)
        code, said = terminal.end()
    return code, shown(said)


def test_a_no_changes_nothing(home):
    before = contents(home)
    code, said = at_a_terminal(home, "n\n", "install", "--all")
    assert (code, contents(home)) == (1, before)
    assert "nothing was changed" in said
    assert all(str(home[0] / kept.path) in said for kept in HOMES.values())
    hubd(home, "install", "--all")
    installed = contents(home)
    assert at_a_terminal(home, "n\n", "uninstall", "--all")[0] == 1
    assert at_a_terminal(home, "\x04", "uninstall", "kiro")[0] == 1, "no answer is a no"
    assert contents(home) == installed


def test_a_yes_is_asked_for_once(home):
    before = contents(home)
    code, said = at_a_terminal(home, "\n", "install", "--all")
    assert code == 0
    assert contents(home) != before
    assert said.count("[Y/n]") == 1
    hubd(home, "import", "cline", "claude-desktop", "--disable-originals", "--force", "*")
    code, said = at_a_terminal(home, "y\n", "uninstall", "--all", "--restore-originals")
    assert (code, said.count("[Y/n]"), contents(home)) == (0, 1, before)


def test_nobody_is_asked_who_says_yes_or_has_nothing_to_decide(home):
    for arguments in (("install", "kiro", "--yes"), ("install", "kiro"), ("uninstall", "kiro", "--dry-run")):
        with Terminal([HUBD, *arguments], home[1], cwd=home[0]) as terminal:
            code, said = terminal.end()
        assert code == 0
        assert "[Y/n]" not in said
    assert told(home, "install", "kiro")["hosts"][0]["did"] == "unchanged"


def test_the_folder_of_the_old_files_is_told_once(home):
    said = hubd(home, "install", "--all")
    backups = f"{home[1]['XDG_STATE_HOME']}/hubd/backups"
    assert said.count(backups) == 1
    assert f"the old files are in {backups}\n" in said
    said = hubd(home, "import", "cline", "kiro", "claude-desktop", "--disable-originals", "--force", "*")
    assert said.count(backups) == 1
    assert "backups" not in hubd(home, "install", "--all"), "nothing was changed"
