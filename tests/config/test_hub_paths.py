"""Where things are, and that these places are private."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from config import base_directories, private_directories
from config.diagnostics import ConfigError
from config.hub_paths import (
    config_file,
    control_path,
    key_path,
    lock_path,
    runtime_dir,
    socket_path,
    state_dir,
    state_path,
    token_path,
)

VARIABLES = ("HUBD_RUNTIME_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_xdg_directories(home, monkeypatch):
    for variable in VARIABLES[1:]:
        monkeypatch.setenv(variable, str(home / variable.lower()))
    runtime, state = home / "xdg_runtime_dir/hubd", home / "xdg_state_home/hubd"
    assert config_file() == home / "xdg_config_home/hubd/hubd.toml"
    assert (socket_path(), control_path(), lock_path()) == (
        runtime / "hubd.sock",
        runtime / "control.sock",
        runtime / "hubd.lock",
    )
    assert (token_path(), key_path(), state_path()) == (state / "token", state / "keys", state / "memory.json")
    assert runtime.stat().st_mode & 0o777 == state.stat().st_mode & 0o777 == 0o700


def test_the_places_without_xdg(home):
    assert config_file() == home / ".config/hubd/hubd.toml"
    assert state_dir() == home / ".local/state/hubd"
    usual = f"/run/user/{os.getuid()}"
    expected = f"{usual}/hubd" if os.access(usual, os.W_OK | os.X_OK) else f"/tmp/hubd-{os.getuid()}"
    assert base_directories.runtime_dir() == expected, "a host that strips the environment must find the same sockets"


def test_an_own_variable_wins_and_relative_ones_are_ignored(home, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_dir() == home / ".local/state/hubd"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "x"))
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(home / "own/"))
    assert runtime_dir() == home / "own"


@pytest.mark.covers("F-D-10")
@pytest.mark.parametrize("there", ["file", "link", "dangling link", "open directory"])
def test_a_place_that_is_not_private_is_refused_and_left(home, monkeypatch, there):
    place = home / "place"
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(place))
    if there == "file":
        place.write_text("x")
    elif there == "open directory":
        place.mkdir()
        place.chmod(0o755)
    else:
        place.symlink_to(home if there == "link" else home / "nowhere")
    before = place.lstat().st_mode
    with pytest.raises(ConfigError, match=r"HUBD_RUNTIME_DIR"):
        runtime_dir()
    assert place.lstat().st_mode == before


def test_a_directory_of_ours_that_others_only_entered_is_closed(home, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    (home / "hubd").mkdir()
    (home / "hubd").chmod(0o755)
    assert runtime_dir().stat().st_mode & 0o777 == 0o700
    (home / "hubd").chmod(0o775)
    with pytest.raises(ConfigError, match="others may enter"):
        runtime_dir()


@pytest.mark.covers("F-D-10")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to someone else")
def test_a_directory_of_another_user_is_refused(home, monkeypatch):
    place = home / "place"
    place.mkdir(mode=0o700)
    os.chown(place, 12345, 12345)
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(place))
    with pytest.raises(ConfigError, match="belongs to another user"):
        runtime_dir()


@pytest.mark.covers("F-D-06")
def test_a_state_directory_that_cannot_be_made_is_no_reason_to_stop(home, monkeypatch, caplog):
    (home / "file").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    assert state_path() == home / "file/hubd/memory.json"
    assert "nothing will be remembered" in caplog.text


def test_a_socket_path_has_room_in_the_kernel(home, monkeypatch):
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(home / ("x" * 100)))
    with pytest.raises(ConfigError, match="longer than the 107 bytes"):
        socket_path()


# --- directories of other users ---------------------------------------------------------------------------------------


@pytest.fixture
def stranger(monkeypatch) -> int:
    """This process is another user than the one whom all its files belong to; the number of that one."""
    uid = os.getuid()
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: uid + 1)
    monkeypatch.setattr("config.private_directories.ROOT", -1)  # or the tests, run by root, would see files of root
    return uid


@pytest.mark.covers("F-C-10", "F-D-06", "SEC-62")
def test_nothing_is_made_in_the_home_of_another_user(home, stranger, caplog):
    with pytest.raises(
        private_directories.NotPrivate, match=rf"home directory {home} .*\(uid {stranger}\); run this as that user"
    ):
        private_directories.private_dir(f"{home}/.local/state/hubd")
    state_dir()
    assert "run this as that user; nothing will be remembered" in caplog.text
    assert list(home.iterdir()) == []


@pytest.mark.covers("F-C-10")
def test_nothing_is_made_in_a_directory_of_another_user(home, stranger, monkeypatch):
    there = home / "there"
    there.mkdir()
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(PermissionError, match=rf"the directory {there} belongs to another user"):
        private_directories.make_dirs(f"{there}/a/b")
    assert list(there.iterdir()) == []
    private_directories.make_dirs(str(there))  # is there already


def test_the_directory_of_another_user_is_that_user_s(home, stranger):
    (home / "hubd").mkdir()
    with pytest.raises(
        private_directories.NotPrivate, match=rf"belongs to another user \(uid {stranger}\): run this as that user"
    ):
        private_directories.private_dir(f"{home}/hubd")


def test_root_may_have_made_the_directory_above(home, monkeypatch):
    monkeypatch.setattr("config.private_directories.ROOT", os.getuid())
    uid = os.getuid() + 1
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: uid)
    private_directories.make_dirs(f"{home}/a/b")  # as in /tmp
    assert (home / "a/b").is_dir()


@pytest.mark.parametrize(("numbers", "is_unmapped"), [("0 0 4294967295", False), ("1000 1000 1", True)])
def test_users_without_a_number_here_are_told_from_nobody(monkeypatch, tmp_path, numbers, is_unmapped):
    path = tmp_path / "uid_map"
    path.write_text(f"{numbers}\n")
    monkeypatch.setattr("hub.linux.peer_credentials.UID_MAP", str(path))
    with nullcontext() if is_unmapped else pytest.raises(PermissionError):
        private_directories.refuse_foreign_dir("/tmp", SimpleNamespace(st_uid=base_directories.UNMAPPED))
    with pytest.raises(PermissionError):
        private_directories.refuse_foreign_dir("/tmp", SimpleNamespace(st_uid=base_directories.UNMAPPED - 1))
