"""Two hosts whose files are links to one file, and `hubd setup`."""

import json

import pytest

from tests.support.commands import run_hubd
from tests.support.setup_home import SetupHome

pytestmark = pytest.mark.in_turn(3)


@pytest.fixture
def home(tmp_path):
    """Cursor, and Kiro with a link to the same file."""
    home = SetupHome(tmp_path)
    for host in home.paths.keys() - {"cursor", "kiro"}:
        home.paths.pop(host).unlink()
    entry = {"command": "npx", "args": ["server-everything"]}
    (own := home.home / "servers.json").write_text(json.dumps({"mcpServers": {"one": entry}}, indent=2))
    for path in home.paths.values():
        path.unlink()
        path.symlink_to(own)
    yield home
    run_hubd(["stop"], home.env)


def test_their_file_is_changed_once_and_that_is_said(home):
    own = home.home / "servers.json"
    before = own.read_text()
    said = " ".join(home.run("setup", "cursor", "kiro", "--yes", "--no-service").split())
    first = home.paths["cursor"]
    assert f"Kiro has the same file as Cursor, {first}: it is changed once, for both" in said
    assert "Done: 1 server through the hub" in said
    assert list(json.loads(own.read_text())["mcpServers"]) == ["hub"]
    assert all(path.is_symlink() for path in home.paths.values())
    home.run("uninstall", "--all", "--restore-originals")
    assert own.read_text() == before
    assert all(path.is_symlink() for path in home.paths.values())


def test_an_import_takes_what_both_have_out_once(home):
    own = home.home / "servers.json"
    before = own.read_text()
    home.run("install", "cursor")
    home.run("start")
    home.run("import", "cursor", "kiro", "--disable-originals", "--yes")
    assert list(json.loads(own.read_text())["mcpServers"]) == ["hub"]
    home.run("uninstall", "--all", "--restore-originals")
    assert own.read_text() == before


@pytest.fixture
def two_keys(home):
    """The same, but Kiro is VS Code, which reads another key of the file."""
    home.paths.pop("kiro").unlink()
    path = home.home / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    own = home.home / "servers.json"
    entry = {"command": "npx", "args": ["server-everything"]}
    other = {"command": "uvx", "args": ["mcp-server-time"]}
    third = {"command": "uvx", "args": ["mcp-server-fetch"]}
    document = {"mcpServers": {"one": entry, "two": third}, "servers": {"time": other, "one": entry}}
    own.write_text(json.dumps(document, indent=2))
    path.symlink_to(own)
    home.paths["vscode"] = path
    return home


def servers_in(home):
    document = json.loads((home.home / "servers.json").read_text())
    return [list(document[key]) for key in ("mcpServers", "servers")]


@pytest.mark.parametrize("one_by_one", [(), ("cursor", "vscode"), ("vscode", "cursor")])
def test_two_keys_of_one_file_are_both_changed_and_come_back(two_keys, one_by_one):
    """Also one host after the other, in either order: what the other one had stays out meanwhile."""
    before = (two_keys.home / "servers.json").read_text()
    two_keys.run("install", "cursor", "vscode")
    two_keys.run("start")
    said = " ".join(two_keys.run("import", "cursor", "vscode", "--disable-originals", "--yes").split())
    assert "VS Code has the same file as Cursor" in said
    assert servers_in(two_keys) == [["hub"], ["hub"]]
    for host in one_by_one:
        two_keys.run("uninstall", host, "--restore-originals")
        if host == one_by_one[0]:
            expected = [["one", "two"], ["hub"]] if host == "cursor" else [["hub"], ["time", "one"]]
            assert servers_in(two_keys) == expected
    if not one_by_one:
        two_keys.run("uninstall", "--all", "--restore-originals")
    assert (two_keys.home / "servers.json").read_text() == before


def test_a_setup_changes_two_keys_of_one_file(two_keys):
    before = (two_keys.home / "servers.json").read_text()
    said = " ".join(two_keys.run("setup", "cursor", "vscode", "--yes", "--no-service").split())
    assert "VS Code has the same file as Cursor" in said
    assert servers_in(two_keys) == [["hub"], ["hub"]]
    two_keys.run("uninstall", "--all", "--restore-originals")
    assert (two_keys.home / "servers.json").read_text() == before
