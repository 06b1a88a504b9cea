"""What is remembered between runs, and that failing to remember stops nothing."""

import os

import pytest

from config.remembered_facts import Memory


def test_values_survive_in_a_private_file(tmp_path):
    path = tmp_path / "state" / "memory.json"
    memory = Memory(path)
    memory.put("claims", "all", {"a": ["x"], "n": 1})
    memory.remember_era("key", "modern")
    memory.save()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    again = Memory(path)
    assert again.get("claims", "all") == {"a": ["x"], "n": 1}
    assert again.era("key") == "modern"
    assert again.get("claims", "none") is None
    assert again.era("none") is None


def test_none_forgets(tmp_path):
    memory = Memory(tmp_path / "m")
    memory.remember_era("key", "legacy")
    memory.save()
    memory.remember_era("key", None)
    memory.remember_era("never", None)
    memory.save()
    assert Memory(tmp_path / "m").era("key") is None


def test_nothing_is_written_when_nothing_changed(tmp_path):
    path = tmp_path / "m"
    memory = Memory(path)
    memory.save()
    assert not path.exists()
    memory.put("a", "b", 1)
    memory.save()
    path.unlink()
    memory.put("a", "b", 1)
    memory.save()
    assert not path.exists()


def test_without_a_path_it_forgets_at_the_end():
    memory = Memory(None)
    memory.put("a", "b", 1)
    memory.save()
    assert memory.get("a", "b") == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format":1}', b"\xff", b"[" * 5000])
def test_a_damaged_file_is_an_empty_memory(tmp_path, data, caplog):
    path = tmp_path / "m"
    path.write_bytes(data)
    memory = Memory(path)
    assert "damaged" in caplog.text
    memory.put("a", "b", 1)
    memory.save()
    assert Memory(path).get("a", "b") == 1


def test_a_file_of_another_version_is_left_alone(tmp_path, caplog):
    path = tmp_path / "m"
    path.write_bytes(b'{"format":99,"sections":{}}')
    memory = Memory(path)
    memory.put("a", "b", 1)
    memory.save()
    assert path.read_bytes() == b'{"format":99,"sections":{}}'
    assert "another version" in caplog.text


@pytest.mark.covers("F-D-05", "F-D-06")
def test_a_disk_that_refuses_is_complained_about_once_and_tried_again(tmp_path, caplog):
    path = tmp_path / "file" / "m"
    path.parent.write_text("in the way of a directory")
    memory = Memory(path)
    memory.put("a", "b", 1)
    memory.save()
    memory.save()
    assert caplog.text.count("cannot save") == 1
    path.parent.unlink()
    memory.save()
    assert Memory(path).get("a", "b") == 1


def test_what_cannot_be_written_stops_nothing(tmp_path, caplog):
    memory = Memory(tmp_path / "m")
    memory.put("claims", "all", "\ud800")
    memory.save()
    assert "cannot save" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("SEC-62")
def test_a_link_in_place_of_the_draft_is_not_followed(tmp_path):
    path = tmp_path / "m"
    memory = Memory(path)
    memory.put("a", "b", 1)
    memory.save()
    target = tmp_path / "target"
    target.write_text("precious")
    path.unlink()
    path.symlink_to(target)
    memory.put("a", "b", 2)
    memory.save()
    assert target.read_text() == "precious"
    assert not path.is_symlink()


@pytest.mark.covers("SEC-62", "F-D-06", "I-5")
@pytest.mark.parametrize("kind", ["link", "device", "pipe", "directory", "large"])
def test_what_is_no_file_of_the_hub_s_is_not_read(tmp_path, kind, caplog):
    path = tmp_path / "memory.json"
    sound = tmp_path / "sound"
    memory = Memory(sound)
    memory.put("claims", "all", 1)
    memory.save()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as sparse:
            sparse.truncate((16 << 20) + 1)
    else:
        path.symlink_to(sound if kind == "link" else "/dev/zero")
    memory = Memory(path)
    assert memory.get("claims", "all") is None
    assert f"cannot read {path}: " in caplog.text
    assert "starting with nothing remembered" in caplog.text
    memory.put("claims", "all", 2)
    memory.save()
    if kind != "directory":
        assert Memory(path).get("claims", "all") == 2, "the next save takes its place"
    assert Memory(sound).get("claims", "all") == 1, "nothing is written through a link"
