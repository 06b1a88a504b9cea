"""Our entry in the file of every host: it comes, and goes without a trace, whatever is edited around it meanwhile."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from config.diagnostics import EditError
from config.editing.text import serverfile
from config.hosts.hub_entries import KEY, Records, http_entry, stdio_entry, variables_of
from config.hosts.install import carry_out, plan_entries, plan_uninstall
from config.hosts.known_hosts import Machine, all_hosts, is_found, project_places, user_places
from tests.support import host_homes
from tests.support.host_homes import HOMES

NOW = datetime(2026, 11, 21, tzinfo=UTC)
HUBD = "/opt/hubd/bin/hubd"


class User:
    """Someone with a home directory, who installs and uninstalls."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.machine = Machine(home, {})
        self.records = Records(home / "state" / "installed.json")
        (home / "state").mkdir(parents=True, exist_ok=True)

    def place(self, id):
        (place,) = user_places(all_hosts()[id], self.machine)
        return place

    def entry(self, id, hubd=HUBD):
        return stdio_entry(all_hosts()[id], hubd)

    def install(self, id, entry=None, place=None):
        plan = plan_entries(place or self.place(id), {KEY: entry or self.entry(id)}, self.records)
        self.carry_out(plan)
        return plan

    def uninstall(self, id, place=None):
        plan = plan_uninstall(place or self.place(id), Records(self.home / "state" / "installed.json"), None, ())
        self.carry_out(plan)
        return plan

    def carry_out(self, plan):
        carry_out(plan, self.records, now=NOW, backups=self.home / "state" / "backups", environ={})


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


def test_every_host_that_is_known_has_a_fixture():
    assert HOMES.keys() == all_hosts().keys()


@pytest.mark.parametrize("id", HOMES)
def test_a_host_is_found_by_its_file_and_by_its_directory(id, user):
    assert not is_found(all_hosts()[id], user.machine)
    path = host_homes.write(user.home, id)[id]
    assert is_found(all_hosts()[id], user.machine)
    assert user.place(id).path == path
    path.unlink()
    assert is_found(all_hosts()[id], user.machine) == (path.parent != user.home)


@pytest.mark.parametrize("id", HOMES)
def test_in_and_out_leaves_every_byte(id, user):
    path = host_homes.write(user.home, id)[id]
    path.chmod(0o640)
    before = path.read_bytes()
    assert user.install(id).did == "added"
    installed = path.read_bytes()
    shape = user.place(id).kept
    entries = serverfile.entries(shape, installed.decode())
    assert entries[KEY] == user.entry(id)
    assert {name: each for name, each in entries.items() if name != KEY} == serverfile.entries(shape, before.decode())
    assert user.install(id).did == "unchanged"
    assert path.read_bytes() == installed
    assert user.uninstall(id).did == "removed"
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert user.uninstall(id).did == "absent"


@pytest.mark.parametrize("id", HOMES)
def test_variables_come_and_go_with_the_entry(id, user):
    path = host_homes.write(user.home, id)[id]
    host = all_hosts()[id]
    variables = {"HUBD_RUNTIME_DIR": "/run/my hub", "XDG_STATE_HOME": "/s"}
    entry = stdio_entry(host, HUBD, variables)
    assert user.install(id, entry).did == "added"
    found = serverfile.entries(user.place(id).kept, path.read_text())[KEY]
    assert found == entry
    assert variables_of(host, found) == variables
    assert user.install(id).did == "updated"
    found = serverfile.entries(user.place(id).kept, path.read_text())[KEY]
    assert (found, variables_of(host, found)) == (user.entry(id), {})
    user.install(id, entry)
    user.uninstall(id)
    assert path.read_bytes().decode() == HOMES[id].text


@pytest.mark.parametrize("id", HOMES)
def test_edits_around_our_entry_stay(id, user):
    path = host_homes.write(user.home, id)[id]
    user.install(id)
    text, meant = path.read_bytes().decode(), HOMES[id].text
    for old, new in HOMES[id].edits:
        assert meant.count(old) == 1
        assert text.count(old) == 1
        text, meant = text.replace(old, new), meant.replace(old, new)
    path.write_bytes(text.encode())
    user.uninstall(id)
    assert path.read_bytes().decode() == meant


@pytest.mark.parametrize("id", HOMES)
def test_servers_that_came_after_ours_stay(id, user):
    """The host's own user interface adds a server at the end, behind ours."""
    path = host_homes.write(user.home, id)[id]
    user.install(id)
    shape = user.place(id).kept
    text = path.read_bytes().decode()
    later = {"name": "later", "command": "x"}
    text = serverfile.insert(shape, text, "later", later).apply(text)
    path.write_bytes(text.encode())
    user.uninstall(id)
    left = serverfile.entries(shape, path.read_bytes().decode())
    assert left == {**serverfile.entries(shape, HOMES[id].text), "later": later}


@pytest.mark.parametrize("id", HOMES)
def test_without_the_record_only_the_entry_goes(id, user):
    path = host_homes.write(user.home, id)[id]
    user.install(id)
    (user.home / "state" / "installed.json").unlink()
    user.uninstall(id)
    shape = user.place(id).kept
    left = path.read_bytes().decode()
    assert serverfile.plain(shape, serverfile.read(shape, left)) == serverfile.plain(
        shape, serverfile.read(shape, HOMES[id].text)
    )


@pytest.mark.parametrize("id", HOMES)
def test_an_entry_edited_by_hand_is_still_ours(id, user):
    path = host_homes.write(user.home, id)[id]
    user.install(id)
    text = path.read_bytes().decode()
    assert text.count(HUBD) == 1
    path.write_bytes(text.replace(HUBD, "/elsewhere/bin/hubd").encode())
    assert user.uninstall(id).did == "removed"
    shape = user.place(id).kept
    left = serverfile.read(shape, path.read_bytes().decode())
    assert serverfile.plain(shape, left) == serverfile.plain(shape, serverfile.read(shape, HOMES[id].text))


@pytest.mark.parametrize("id", HOMES)
def test_a_hub_that_moved_is_updated_and_still_goes_without_a_trace(id, user):
    path = host_homes.write(user.home, id)[id]
    user.install(id)
    assert user.install(id, user.entry(id, "/new/bin/hubd")).did == "updated"
    text = path.read_bytes().decode()
    assert "/new/bin/hubd" in text
    assert HUBD not in text
    user.uninstall(id)
    assert path.read_bytes().decode() == HOMES[id].text


@pytest.mark.parametrize("id", HOMES)
def test_a_file_that_was_made_goes_with_its_directories(id, user):
    path = host_homes.write(user.home, id)[id]
    path.unlink()
    alone = not all_hosts()[id].editors and path.parent != user.home
    if alone:
        path.parent.rmdir()
    user.install(id)
    assert serverfile.entries(user.place(id).kept, path.read_text())[KEY] == user.entry(id)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    user.install(id, user.entry(id, "/new/bin/hubd"))
    user.uninstall(id)
    assert not path.exists()
    assert path.parent.exists() != alone


@pytest.mark.parametrize("id", [id for id, host in all_hosts().items() if host.http])
def test_by_url(id, user):
    path = host_homes.write(user.home, id)[id]
    entry = http_entry(all_hosts()[id], "http://127.0.0.1:8765/mcp", "t0ken")
    user.install(id, entry)
    written = path.read_bytes().decode()
    assert serverfile.entries(user.place(id).kept, written)[KEY] == entry
    assert "Bearer t0ken" in written
    path.write_bytes(written.replace("t0ken", "another").encode())
    user.uninstall(id)
    assert serverfile.entries(user.place(id).kept, path.read_bytes().decode()) == serverfile.entries(
        user.place(id).kept, HOMES[id].text
    )
    assert "Authorization" not in json.dumps(http_entry(all_hosts()[id], "http://127.0.0.1:8765/mcp", None))


@pytest.mark.parametrize("id", [id for id, host in all_hosts().items() if host.project])
def test_in_a_project(id, user):
    project = user.home / "shop"
    project.mkdir()
    (place,) = project_places(all_hosts()[id], project)
    assert place is not None
    assert place.path.is_relative_to(project)
    user.install(id, place=place)
    assert serverfile.entries(place.kept, place.path.read_text())[KEY] == user.entry(id)
    user.uninstall(id, place=place)
    assert not list(project.iterdir())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "text", "why"),
    [
        ("cursor", '{"mcpServers": {"hub": {"command": "usb-hub"}}}', "does not start hubd"),
        ("cursor", '{"mcpServers": {', "is not JSON at column 17"),
        ("cursor", '{"mcpServers": [1]}', "not a mapping of servers"),
        ("codex", "[mcp_servers\n", "is not TOML"),
        ("codex", 'mcp_servers = { a = { command = "x" } }\n', "cannot be edited for certain"),
        ("goose", "extensions: [\n", "is not YAML"),
        ("goose", "extensions: {a: {cmd: x}}\n", "in one line, with brackets"),
        ("goose", "a: 1\n---\nb: 2\n", "is not YAML"),
        ("goose", "extensions:\n  - a\n", "not a mapping"),
        ("continue", "mcpServers:\n  a: {}\n", "not a list"),
    ],
)
def test_what_cannot_be_edited_for_certain_is_left_alone(id, text, why, user):
    path = host_homes.write(user.home, id)[id]
    path.write_text(text)
    plan = user.install(id)
    assert plan.did == "refused"
    assert why in plan.why
    assert path.read_text() == text


def test_an_entry_of_that_name_that_is_not_ours_is_not_removed(user):
    path = host_homes.write(user.home, "cursor")["cursor"]
    path.write_text('{"mcpServers": {"hub": {"command": "usb-hub"}}}')
    plan = user.uninstall("cursor")
    assert plan.did == "refused"
    assert path.read_text() == '{"mcpServers": {"hub": {"command": "usb-hub"}}}'


def test_not_utf_8(user):
    path = host_homes.write(user.home, "cursor")["cursor"]
    path.write_bytes('{"mcpServers": {}}'.encode("utf-16"))
    assert user.install("cursor").why == "is not UTF-8 text"


def test_a_file_that_changes_meanwhile_is_left_alone(user):
    path = host_homes.write(user.home, "cursor")["cursor"]
    plan = plan_entries(user.place("cursor"), {KEY: user.entry("cursor")}, user.records)
    path.write_text("{}")
    with pytest.raises(EditError, match="meanwhile"):
        user.carry_out(plan)
    assert path.read_text() == "{}"


def test_a_damaged_record_is_no_obstacle(user):
    path = host_homes.write(user.home, "cursor")["cursor"]
    user.install("cursor")
    (user.home / "state" / "installed.json").write_text("{")
    assert user.uninstall("cursor").did == "removed"
    assert KEY not in serverfile.entries(user.place("cursor").kept, path.read_text())


# --- where files are --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "environ", "path"),
    [
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("codex", {"CODEX_HOME": "/c/"}, "/c/config.toml"),
        ("codex", {"CODEX_HOME": "relative"}, "/home/me/.codex/config.toml"),
        ("zed", {"XDG_CONFIG_HOME": "/x"}, "/x/zed/settings.json"),
        ("copilot", {"COPILOT_HOME": "/c"}, "/c/mcp-config.json"),
        ("goose", {}, "/home/me/.config/goose/config.yaml"),
    ],
)
def test_variables_that_move_files(id, environ, path):
    (place,) = user_places(all_hosts()[id], Machine(Path("/home/me"), environ))
    assert str(place.path) == path


def test_an_extension_in_several_editors_has_several_files(tmp_path):
    for editor in ("Code", "VSCodium", "Cursor"):
        (tmp_path / ".config" / editor / "User/globalStorage/saoudrizwan.claude-dev").mkdir(parents=True)
    places = user_places(all_hosts()["cline"], Machine(tmp_path, {}))
    assert [place.title for place in places] == ["Cline in VS Code", "Cline in VSCodium", "Cline in Cursor"]


def test_of_two_files_the_one_that_exists(tmp_path):
    directory = tmp_path / ".config/opencode"
    directory.mkdir(parents=True)
    (directory / "opencode.jsonc").write_text("{}")
    (place,) = user_places(all_hosts()["opencode"], Machine(tmp_path, {}))
    assert place.path.name == "opencode.jsonc"
