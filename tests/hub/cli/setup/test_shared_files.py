"""Two hosts whose files are links to one file, and `hubd setup`."""

import json
import subprocess

import pytest

from tests.support.processes import HUBD
from tests.support.setup_home import SetupHome


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
    subprocess.run([HUBD, "stop"], env=home.env, capture_output=True, check=False, timeout=60)


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
