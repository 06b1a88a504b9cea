"""Replacing files: all or nothing, with a backup, as they were otherwise."""

import errno
import os
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest

from config.errors import EditError
from config.files import KEPT, locked, read_file, refuse_place, remove_file, replace_file, replace_private

NOW = datetime(2026, 11, 21, 12, 30, 15, tzinfo=UTC)


@pytest.fixture
def backups(tmp_path):
    return tmp_path / "state" / "backups"


def replace(path, data, was, backups, now=NOW):
    return replace_file(path, data, was=was, now=now, backups=backups)


def test_a_file_is_replaced_and_the_old_one_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    backup = replace(path, b"new", b"old", backups)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert backup is not None
    assert backup.read_bytes() == b"old"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert "20261121T123015" in backup.name
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "state"]


def test_a_new_file_is_private_and_has_no_backup(tmp_path, backups):
    path = tmp_path / "deep" / "er" / "a.json"
    assert replace(path, b"new", None, backups) is None
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["a.json"]


def test_links_are_followed_and_stay(tmp_path, backups):
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "real.json").write_bytes(b"old")
    link = tmp_path / "a.json"
    link.symlink_to("dotfiles/real.json")
    replace(link, b"new", b"old", backups)
    assert link.is_symlink()
    assert (dotfiles / "real.json").read_bytes() == b"new"


@pytest.mark.parametrize("was", [b"other", None])
def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path, backups, was):
    path = tmp_path / "a.json"
    path.write_bytes(b"theirs")
    with pytest.raises(EditError, match=r"changed by another program meanwhile.*run this again"):
        replace(path, b"new", was, backups)
    assert path.read_bytes() == b"theirs"
    assert len(list(tmp_path.iterdir())) <= 2
    with pytest.raises(EditError, match="meanwhile"):
        remove_file(path, was=b"other", now=NOW, backups=backups)
    assert path.exists()


def test_a_file_is_removed_and_kept_as_backup(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    backup = remove_file(path, was=b"old", now=NOW, backups=backups)
    assert not path.exists()
    assert backup is not None
    assert backup.read_bytes() == b"old"


def test_only_the_latest_backups_are_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"0")
    for number in range(KEPT + 5):
        replace(path, b"%d" % (number + 1), b"%d" % number, backups, NOW + timedelta(seconds=number))
    kept = sorted(backups.iterdir())
    assert [each.read_bytes() for each in kept] == [b"%d" % number for number in range(5, KEPT + 5)]


def test_without_a_backup_nothing_is_changed(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    backups.parent.write_bytes(b"a file where the directory should be")
    with pytest.raises(EditError, match=r"a.json: cannot be written: .*; it was left as it is"):
        replace(path, b"new", b"old", backups)
    with pytest.raises(EditError, match=r"a.json: cannot be removed: .*; it was left as it is"):
        remove_file(path, was=b"old", now=NOW, backups=backups)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(EditError, match="cannot be made"), locked(backups.parent):
        pass


def test_what_is_no_plain_file_is_refused(tmp_path, backups):
    with pytest.raises(EditError, match="cannot be read"):
        read_file(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(EditError, match="is a link to nothing"):
        read_file(tmp_path / "dangling")
    assert read_file(tmp_path / "missing") is None


def test_one_command_edits_at_a_time(tmp_path):
    order = []
    second_started = threading.Event()

    def second():
        second_started.set()
        with locked(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path):
        thread.start()
        assert second_started.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


@pytest.mark.covers("F-D-05")
def test_a_private_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "below" / "keys"
    replace_private(path, b"one")
    replace_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("config.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_private(path, b"three")
    assert path.read_bytes() == b"two"
    assert [each.name for each in path.parent.iterdir()] == ["keys"]


# --- files and directories of other users -----------------------------------------------------------------------------


@pytest.fixture
def stranger(monkeypatch) -> int:
    """This process is another user than the one whom all its files belong to; the number of that one."""
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for name in ("config.places.ROOT", "config.source.ROOT"):
        monkeypatch.setattr(name, -1)  # or the tests, run by root, would see files of root
    return uid


@pytest.mark.covers("F-C-10", "SEC-62")
def test_a_file_of_another_user_is_not_read(tmp_path, stranger):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    with pytest.raises(EditError, match=rf"a.json: belongs to another user \(uid {stranger}\); run this as that user"):
        read_file(path)


@pytest.mark.covers("F-C-10", "F-D-06", "SEC-62")
def test_nothing_is_written_into_a_directory_of_another_user(tmp_path, stranger, backups):
    path = tmp_path / "a.json"
    for write in (
        lambda: replace(path, b"new", None, backups),
        lambda: replace(tmp_path / "deep" / "a.json", b"new", None, backups),
        lambda: refuse_place(tmp_path / "deep" / "a.json"),
        lambda: locked(tmp_path / "deep").__enter__(),
    ):
        with pytest.raises(EditError, match=r"belongs to another user .*; run this as that user"):
            write()
    with pytest.raises(PermissionError, match="belongs to another user"):
        replace_private(path, b"new")
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(EditError, match="belongs to another user"):
        replace(path, b"new", b"old", backups)
    with pytest.raises(EditError, match="belongs to another user"):
        remove_file(path, was=b"old", now=NOW, backups=backups)
    assert path.read_bytes() == b"old"


@pytest.mark.covers("SEC-62")
def test_a_link_put_in_between_changes_the_mode_of_nothing_else(tmp_path, backups, monkeypatch):
    path, other = tmp_path / "a.json", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o644)
    other.write_bytes(b"secret")
    other.chmod(0o600)
    fstat = os.fstat

    def put_link(descriptor):
        for new in tmp_path.glob(".a.json.*.new"):
            new.unlink()
            new.symlink_to(other)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", put_link)
    replace(path, b"new", b"old", backups)
    assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_extended_attributes_stay(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has none")
    replace(path, b"new", b"old", backups)
    assert os.getxattr(path, "user.note") == b"kept"


@pytest.mark.covers("SEC-50", "F-C-10")
def test_commands_are_taken_only_from_files_that_nobody_else_could_write(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    path.chmod(0o666)
    assert read_file(path) == b"{}"
    with pytest.raises(EditError, match=r"others may write it, and it decides which commands hubd runs"):
        read_file(path, trusted=True)
    path.chmod(0o600)
    assert read_file(path, trusted=True) == b"{}"
    assert read_file(tmp_path / "missing", trusted=True) is None
