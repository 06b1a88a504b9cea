"""Drafts of hubs that were killed: removed when nobody can be writing them any more, and nothing else is."""

import os

import pytest

from config import atomic_writes
from config.atomic_writes import OLD_S, remove_drafts, remove_drafts_of, replace_file, replace_private

NOW = 1_800_000_000.0


def left(path, age=OLD_S + 1):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"half")
    os.utime(path, (NOW - age, NOW - age))
    return path


class Killed(BaseException):
    pass


@pytest.mark.covers("F-D-05", "F-D-06")
def test_drafts_that_files_leaves_are_removed_in_all_places(tmp_path, monkeypatch):
    """The names are those that `config.atomic_writes` makes, whatever they are."""

    def killed(*_, **__):
        raise Killed

    (tmp_path / "installed.json").write_bytes(b"old")
    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(f"config.atomic_writes.os.{name}", killed)
    for write in (
        lambda: replace_private(tmp_path / "sessions.json", b"new"),
        lambda: replace_private(tmp_path / "catalogue" / "demo.json", b"new"),
        lambda: replace_file(tmp_path / "installed.json", b"new", was=b"old"),
    ):
        with pytest.raises(Killed):
            write()
    monkeypatch.undo()
    left(tmp_path / "backups" / "home%a.json.0123abcd.new")
    drafts = list(tmp_path.rglob("*.new"))
    assert len(drafts) == 4
    for each in drafts:
        os.utime(each, (NOW - OLD_S - 1, NOW - OLD_S - 1))
    assert remove_drafts(str(tmp_path), NOW) == 4
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["installed.json"]


@pytest.mark.covers("F-D-06")
def test_nothing_else_is_removed(tmp_path, monkeypatch):
    for name in ("sessions.json", "a.new", "a.0123abc.new", "a.0123ABCD.new", "a.0123abcd.new.json", ".0123abcd.new"):
        left(tmp_path / name)
    left(tmp_path / "young.0123abcd.new", OLD_S - 1)
    left(tmp_path / "other" / "a.0123abcd.new")
    (tmp_path / "dir.0123abcd.new").mkdir()
    (tmp_path / "link.0123abcd.new").symlink_to("sessions.json")
    before = sorted(tmp_path.rglob("*"))
    assert remove_drafts(str(tmp_path), NOW) == 0
    left(tmp_path / "foreign.0123abcd.new")
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert remove_drafts(str(tmp_path), NOW) == 0
    monkeypatch.undo()
    assert remove_drafts(str(tmp_path), NOW) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert remove_drafts(str(tmp_path / "missing"), NOW) == 0


@pytest.mark.covers("F-D-06")
def test_a_start_looks_at_so_many_entries_and_the_next_one_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_writes, "MOST_LOOKED_AT", 3)
    for number in range(5):
        left(tmp_path / f"sessions.json.0123abc{number}.new")
    assert [remove_drafts(str(tmp_path), NOW) for _ in range(3)] == [3, 2, 0]


def test_drafts_beside_files_of_others_are_known_by_their_whole_name(tmp_path):
    """Also behind a link, and however young: nobody writes these without the lock."""
    home = tmp_path / "home"
    (home / "real").mkdir(parents=True)
    (home / "a.json").symlink_to("real/b.json")
    ours = [
        left(home / "real" / ".b.json.0123abcd.new", 1),
        left(tmp_path / "state" / "secrets.json.0123abcd.new", 1),
        left(tmp_path / "backups" / "home%a.json.0123abcd.new", 1),
    ]
    others = [
        left(home / ".a.json.0123abcd.new", 1),
        left(home / "real" / ".other.json.0123abcd.new", 1),
        left(home / "real" / ".bxjson.0123abcd.new", 1),
        left(home / "real" / ".b.json.0123abcde.new", 1),
        left(home / "real" / ".b.json.fedcba98.new", -1),
    ]
    files = [str(home / "a.json"), str(tmp_path / "state" / "secrets.json"), str(tmp_path / "missing" / "x")]
    assert remove_drafts_of(files, str(tmp_path / "backups"), NOW) == len(ours)
    assert not any(each.exists() for each in ours)
    assert all(each.exists() for each in others)
