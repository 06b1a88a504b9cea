"""Secrets in Debian's gnome-keyring, without a desktop: unlocked, locked, and with no bus at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import looking
from tests.support.keyring_daemon import gnome_keyring, session_bus
from tests.support.processes import HUBD, own_directories, running_hub
from tests.support.setup_home import TOKEN, SetupHome

CANARY = "s3cret-canary-0123456789"


@pytest.fixture
def keyring(tmp_path):
    directory = tmp_path / "keyring"
    directory.mkdir(mode=0o700)
    return directory


def hubd(env, *arguments, stdin=""):
    done = subprocess.run(
        [HUBD, *arguments], env=env, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr
    return done.stdout


@pytest.mark.in_turn(2)
@pytest.mark.covers("BOX-03")
def test_an_unlocked_keyring_keeps_secrets_and_no_file_does(tmp_path, keyring):
    with session_bus(keyring) as address, gnome_keyring(keyring, address, unlocked=True):
        env = own_directories(tmp_path) | {"DBUS_SESSION_BUS_ADDRESS": address}
        assert "TOKEN is kept in the keyring" in hubd(env, "secret", "set", "TOKEN", stdin=CANARY)
        assert json.loads(hubd(env, "secret", "ls", "--json"))["secrets"] == [
            {"name": "TOKEN", "principal": None, "kept": "keyring", "servers": []}
        ]
        found = [path for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
        assert found == []
        code = "from config.secrets.store import *; print(SecretStore.open().get('TOKEN')[::-1])"
        argv = [sys.executable, "-c", code]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == CANARY[::-1]
        hubd(env, "secret", "rm", "TOKEN")
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert "there is no secret TOKEN" in done.stderr


@pytest.mark.in_turn(2)
@pytest.mark.covers("BOX-01", "BOX-03")
def test_a_locked_keyring_costs_one_server_until_it_is_unlocked(tmp_path, keyring, monkeypatch):
    python = json.dumps(sys.executable)
    demo = f'command = {python}\nargs = ["-I", "-m", "upstreams.demo"]\n'
    text = f'[upstreams.plain]\n{demo}[upstreams.locked]\n{demo}env = {{ T = "${{secret:TOKEN}}" }}\n'
    with session_bus(keyring) as address:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        with gnome_keyring(keyring, address, unlocked=True):
            hubd(own_directories(tmp_path), "secret", "set", "TOKEN", stdin=CANARY)
        with running_hub(tmp_path, text, auth="none") as hub:
            with gnome_keyring(keyring, address, unlocked=False):
                hubd(hub.env, "reload")
                subprocess.run(
                    [HUBD, "restart", "locked"], env=hub.env, capture_output=True, timeout=120, check=False
                )  # whoever waits for it hears that it fails
                rows = looking.until(hub.env, lambda rows: rows["locked"]["state"] == "unresolved")
                assert rows["plain"]["state"] == "connected"
                assert "${secret:TOKEN} has no value" in rows["locked"]["last_error"]
                assert "is locked: unlock it" in rows["locked"]["last_error"]
                out = hubd(hub.env, "secret", "set", "OTHER", stdin=CANARY)
                assert "is locked" in out
                assert "which only you can read" in out
            with gnome_keyring(keyring, address, unlocked=True):
                hubd(hub.env, "restart", "locked")
                looking.until(hub.env, lambda rows: rows["locked"]["state"] == "connected")
        assert CANARY not in Path(tmp_path, "hubd.log").read_text()


@pytest.mark.in_turn(2)
@pytest.mark.covers("BOX-03", "FH-1")
def test_with_a_locked_keyring_a_setup_moves_secrets_to_a_file(tmp_path, keyring):
    home = SetupHome(tmp_path)
    home.fetch()
    before = home.contents()
    with session_bus(keyring) as address:
        home.env["DBUS_SESSION_BUS_ADDRESS"] = address
        with gnome_keyring(keyring, address, unlocked=True):
            hubd(home.env, "secret", "set", "MINE", stdin=CANARY)
        with gnome_keyring(keyring, address, unlocked=False):
            try:
                said = home.run("setup", "--yes", "--no-service")
                assert "is locked" in said
                kept = {each["name"]: each["kept"] for each in home.told("secret", "ls")["secrets"]}
                assert kept["GITHUB_GITHUB_PERSONAL_ACCESS_TOKEN"] == "file"
                looking.until(home.env, lambda rows: rows["github"]["state"] == "connected")
                assert TOKEN not in "".join(path.read_text() for path in home.hub_files())
                home.run("uninstall", "--all", "--restore-originals")
                assert home.contents() == before
            finally:
                subprocess.run([HUBD, "stop"], env=home.env, capture_output=True, timeout=60, check=False)


@pytest.mark.in_turn(2)
def test_without_a_bus_a_file_keeps_them(tmp_path):
    env = own_directories(tmp_path) | {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere/bus"}
    assert "which only you can read: no keyring answers here" in hubd(env, "secret", "set", "TOKEN", stdin=CANARY)
