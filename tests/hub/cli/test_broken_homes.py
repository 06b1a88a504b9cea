"""Homes with files that nobody can use: each is reported for itself, all others are served, and nothing is lost."""

import json
import os
import stat

import pytest

from tests.support import host_commands
from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.host_commands import hubd, told
from tests.support.host_homes import HOMES
from tests.support.setup_home import AS_USER

SOUND = ("cursor", "zed", "goose", "codex")
"""Hosts whose files are as they should be."""


def broken_json(path):
    path.write_text('{"mcpServers": {"a": {"command": "x"}')


def empty_object(path):
    path.write_text('{"mcpServers": []}')


def not_utf8(path):
    path.write_bytes(b'{"mcpServers": {"a": {"command": "\xff\xfe"}}}')


def huge(path):
    with path.open("wb") as file:
        file.truncate(17 << 20)


def deep(path):
    path.write_text('{"mcpServers": ' + "[" * 100_000)


def directory(path):
    path.unlink()
    path.mkdir()


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def link_to_nothing(path):
    path.unlink()
    path.symlink_to(path.with_name("gone"))


def loop(path):
    path.unlink()
    path.symlink_to(path)


KINDS = (broken_json, empty_object, not_utf8, huge, deep, directory, pipe, link_to_nothing, loop)


LINKS = (link_to_nothing, loop)
"""To an import there is no file."""
WITHOUT_HUB = (broken_json, empty_object, not_utf8, deep)
"""They can be seen not to name the hub, so nothing of it is left there."""


@pytest.fixture
def home(tmp_path):
    return host_commands.home(tmp_path)


def state_of(path):
    """What is at a path: its kind, and its bytes."""
    found = path.lstat()
    data = path.read_bytes() if stat.S_ISREG(found.st_mode) else os.readlink(path) if path.is_symlink() else b""
    return stat.S_IFMT(found.st_mode), found.st_ino, data


@pytest.mark.parametrize("kind", draw(4, KINDS), ids=lambda kind: kind.__name__)
def test_a_file_that_is_no_use_stops_no_other(home, kind):
    path = home[0] / HOMES["kiro"].path
    kind(path)
    before = state_of(path)
    texts = {host: (home[0] / HOMES[host].path).read_bytes() for host in SOUND}
    found = told(home, "install", "kiro", *SOUND, code=1)
    did = {each["host"]: each["did"] for each in found["hosts"]}
    assert did.pop("kiro") in ("refused", "failed")
    assert did == dict.fromkeys(SOUND, "added")
    assert str(path) in found["error"]["message"]
    found = told(home, "import", "kiro", *SOUND, "--secrets", "keep", code=0 if kind in LINKS else 1)
    assert {each["host"] for each in found["servers"]} == set(SOUND)
    assert {each["host"] for each in told(home, "install")["hosts"] if each["hub"] == "yes"} == set(SOUND)
    arguments = ("--disable-originals", "--force", "*")
    hubd(home, "import", "kiro", *SOUND, *arguments, code=0 if kind in LINKS else 1)
    assert all((home[0] / HOMES[host].path).read_bytes() != texts[host] for host in SOUND)
    hubd(home, "uninstall", "kiro", *SOUND, "--restore-originals", code=0 if kind in WITHOUT_HUB else 1)
    assert state_of(path) == before
    assert {host: (home[0] / HOMES[host].path).read_bytes() for host in SOUND} == texts


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_commands_work_with_nothing_on_the_path(home, path):
    home[1]["PATH"] = path
    hubd(home, "install", "kiro")
    (home[0] / HOMES["kiro"].path).write_text('{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}')
    (server,) = told(home, "import", "kiro")["servers"]
    assert (server["name"], server["did"]) == ("a", "taken")
    findings = json.loads(hubd(home, "doctor", "--json", code=1))
    assert any(each["check"] == "command" and "npx is not found" in each["what"] for each in findings)
    assert "there is no systemctl on this machine" in hubd(home, "service", "install", code=1)


def test_a_link_is_followed_and_stays_a_link(home):
    path = home[0] / HOMES["kiro"].path
    real = home[0] / "dotfiles" / "kiro.json"
    real.parent.mkdir()
    real.write_text('{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n')
    path.unlink()
    path.symlink_to(real)
    before = real.read_bytes()
    hubd(home, "install", "kiro")
    hubd(home, "import", "kiro", "--disable-originals", "--force", "*")
    assert path.is_symlink()
    assert json.loads(real.read_text())["mcpServers"]["a"].get("disabled") is True
    hubd(home, "uninstall", "kiro", "--restore-originals")
    assert (path.is_symlink(), real.read_bytes()) == (True, before)


def as_user(home, *arguments, code=0):
    """The whole output of a command for which the modes of files hold, also if this is root."""
    directory, env = home
    done = run_hubd(arguments, env, cwd=directory, prefix=AS_USER)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_file_that_cannot_be_written_keeps_its_servers(home):
    path = home[0] / HOMES["kiro"].path
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    before = path.read_bytes()
    path.parent.chmod(0o555)
    try:
        arguments = ("--disable-originals", "--without-hub", "--force", "*", "--secrets", "keep")
        said = as_user(home, "import", "kiro", *SOUND, *arguments, "--yes", code=1)
        assert f"{path}: cannot be written" in said
        assert path.read_bytes() == before
        assert "not the hub" not in as_user(home, "uninstall", *SOUND, "--restore-originals", "--yes")
    finally:
        path.parent.chmod(0o755)
    hubd(home, "uninstall", "kiro", "--restore-originals")
    assert path.read_bytes() == before
