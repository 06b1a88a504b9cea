"""What upstreams offered last: files that are used as they were written or not at all, and are no reason to stop."""

import os

import pytest
import trio
import trio.testing
from msgspec import Raw, structs

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from upstreams.inventory.last_known_lists import (
    KEEP_DAYS,
    LATELY_S,
    NOTED_AGAIN_S,
    SAVE_AFTER_S,
    SECTION,
    LastConnected,
    LastKnown,
    file_name,
)

CONFIG = UpstreamConfig(command="files", args=("--all",))


class Watched(LastKnown):
    """Says when something was saved, or could not be."""

    def __init__(self, directory):
        super().__init__(directory)
        self.times = 0
        self._moved = trio.Event()

    def _saved(self, drafts, problems):
        super()._saved(drafts, problems)
        self.times += 1
        self._moved.set()
        self._moved = trio.Event()

    async def until(self, times):
        while self.times < times:
            await self._moved.wait()


def snapshot_of(name="files", *, tools=("read", "write"), version=MODERN, **more):
    entries = tuple(ListEntry(tool, {"name": Raw(b'"%b"' % tool.encode()), "x": Raw(b"1E400")}) for tool in tools)
    return Snapshot(
        upstream=name,
        version=version,
        capabilities={"tools": Raw(b'{"listChanged":true}')},
        server_info={"name": Raw(b'"server"')},
        instructions="Be kind \u00fc",
        lists={**dict.fromkeys(Kind, ()), Kind.TOOL: entries},
        freshness={**dict.fromkeys(Kind, Freshness()), Kind.TOOL: Freshness(5000, True)},
        local=True,
        **more,
    )


def saved(directory, snapshot=None, name="files", config=CONFIG):
    """A directory in which a snapshot was saved; its file."""
    snapshot = snapshot or snapshot_of(name)
    library = LastKnown(directory)
    library.note(name, config, snapshot)
    library.save()
    assert not library.problem
    return directory / file_name(name)


@pytest.mark.covers("SEC-62", "F-D-03")
def test_all_of_a_snapshot_survives_in_a_private_file(tmp_path):
    directory = tmp_path / "catalogue"
    path = saved(directory, snapshot_of(degraded=("tools could not be read in time",)))
    assert path.stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    assert os.listdir(directory) == ["files.json"]
    assert LastKnown(directory).find("files", CONFIG) == snapshot_of()


async def test_prepared_files_are_read_once(tmp_path):
    path = saved(tmp_path)
    library = LastKnown(tmp_path)
    await library.prepare({"files": CONFIG, "other": CONFIG})
    path.unlink()
    assert library.find("files", CONFIG) == snapshot_of()
    assert library.find("files", CONFIG) is None
    assert library.find("other", CONFIG) is None


def test_another_command_is_another_server(tmp_path):
    saved(tmp_path)
    library = LastKnown(tmp_path)
    assert library.find("files", structs.replace(CONFIG, args=("--some",))) is None
    assert library.find("files", structs.replace(CONFIG, disabled=True)) is None
    assert library.find("elsewhere", CONFIG) is None


def test_where_it_runs_is_what_the_configuration_says_now(tmp_path):
    saved(tmp_path)
    found = LastKnown(tmp_path).find("files", structs.replace(CONFIG, locality="remote"))
    assert found == structs.replace(snapshot_of(), local=False)


def test_a_file_of_another_upstream_is_not_used(tmp_path):
    saved(tmp_path).rename(tmp_path / file_name("mail"))
    assert LastKnown(tmp_path).find("mail", CONFIG) is None


@pytest.mark.parametrize("name", ["files", "Files", "my_files", "A" * 30])
def test_names_of_files_are_plain_and_differ_in_more_than_case(name):
    assert file_name(name).removesuffix(".json").replace("-", "").isalnum()
    assert file_name(name) == file_name(name).lower()
    assert len({file_name(each) for each in (name, "other", name.swapcase())}) == 3


@pytest.mark.covers("F-D-03", "F-D-18")
def test_a_damaged_byte_anywhere_is_noticed(tmp_path, caplog):
    path = saved(tmp_path)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        found = LastKnown(tmp_path).find("files", CONFIG)
        assert found in (None, snapshot_of()), good[at : at + 20]  # the latter: a line feed that may be a space
    for at in range(len(good)):
        path.write_bytes(good[:at])
        assert LastKnown(tmp_path).find("files", CONFIG) is None
    assert "damaged" in caplog.text


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{}", b"[]\n{}", b"\xff\n\xff", b'{"format":"1"}\n{}', b"[" * 5000, b'{"a":' + b"[" * 5000 + b"\n"],
)
def test_what_was_never_ours_is_none_and_is_replaced(tmp_path, data, caplog):
    path = tmp_path / "files.json"
    path.write_bytes(data)
    library = LastKnown(tmp_path)
    assert library.find("files", CONFIG) is None
    assert len(caplog.records) == 1
    library.note("files", CONFIG, snapshot_of())
    library.save()
    assert LastKnown(tmp_path).find("files", CONFIG) == snapshot_of()


@pytest.mark.covers("SEC-62")
@pytest.mark.parametrize("how", ["link", "fifo", "directory"])
def test_only_plain_files_are_read(tmp_path, how, caplog):
    path = saved(tmp_path / "there")
    (tmp_path / "here").mkdir()
    trap = tmp_path / "here" / "files.json"
    match how:
        case "link":
            trap.symlink_to(path)
        case "fifo":
            os.mkfifo(trap)
        case "directory":
            trap.mkdir()
    library = LastKnown(tmp_path / "here")
    assert library.find("files", CONFIG) is None
    library.note("files", CONFIG, snapshot_of())
    library.save()
    assert LastKnown(tmp_path / "there").find("files", CONFIG) == snapshot_of()
    assert bool(library.problem) is (how == "directory")


@pytest.mark.covers("F-D-18")
async def test_a_newer_file_is_left_alone(tmp_path, caplog):
    path = tmp_path / "files.json"
    path.write_bytes(b'{"format":2,"more":1}\nwhatever')
    os.utime(path, (0, 0))
    library = LastKnown(tmp_path, wall=lambda: 1e12)
    await library.prepare({"files": CONFIG})
    assert library.find("files", CONFIG) is None
    assert "newer" in caplog.text
    library.note("files", CONFIG, snapshot_of())
    library.save()
    os.utime(path, (0, 0))
    await library.prepare({"mail": CONFIG})
    assert path.read_bytes() == b'{"format":2,"more":1}\nwhatever'


async def test_files_nobody_has_asked_for_long_are_removed(tmp_path):
    now = saved(tmp_path).stat().st_mtime
    for name in ("used", "unused", "recent"):
        path = saved(tmp_path, snapshot_of(name), name)
        os.utime(path, (now, now - 86_400 * KEEP_DAYS + (100 if name == "recent" else -100)))
    (tmp_path / "used.json.99.new").touch()
    os.utime(tmp_path / "used.json.99.new", (0, 0))
    (tmp_path / "notes.txt").touch()
    os.utime(tmp_path / "notes.txt", (0, 0))
    await LastKnown(tmp_path, wall=lambda: now).prepare({"used": CONFIG})
    assert sorted(os.listdir(tmp_path)) == ["files.json", "notes.txt", "recent.json", "used.json"]


async def test_changes_are_gathered_and_only_real_ones_written(autojump_clock, nursery, tmp_path):
    library = Watched(tmp_path)
    nursery.start_soon(library.run)
    path = tmp_path / "files.json"
    for tools in (("a",), ("a", "b"), ("read", "write")):
        library.note("files", CONFIG, snapshot_of(tools=tools))
        await trio.sleep(SAVE_AFTER_S / 4)
    assert not path.exists()
    await library.until(1)
    assert LastKnown(tmp_path).find("files", CONFIG) == snapshot_of()
    first = path.stat().st_ino
    library.note("files", CONFIG, snapshot_of())
    await library.until(2)
    assert path.stat().st_ino == first
    library.note("files", CONFIG, snapshot_of(version=L4))
    await library.until(3)
    assert path.stat().st_ino != first


async def test_what_was_read_is_not_written_again(tmp_path):
    path = saved(tmp_path)
    first = path.stat().st_ino
    library = LastKnown(tmp_path)
    await library.prepare({"files": CONFIG})
    library.note("files", CONFIG, library.find("files", CONFIG))
    library.save()
    assert path.stat().st_ino == first


def test_what_is_not_saved_yet_is_found_too(tmp_path):
    library = LastKnown(tmp_path)
    library.note("files", CONFIG, snapshot_of())
    assert library.find("files", CONFIG) == snapshot_of()


@pytest.mark.covers("F-D-05", "F-D-06")
async def test_a_disk_that_refuses_is_complained_about_once_and_tried_again(autojump_clock, nursery, tmp_path, caplog):
    directory = tmp_path / "catalogue"
    directory.write_text("in the way")
    library = Watched(directory)
    nursery.start_soon(library.run)
    library.note("files", CONFIG, snapshot_of())
    await library.until(3)
    assert caplog.text.count("cannot save") == 1
    assert "files.json" in library.problem
    directory.unlink()
    await library.until(4)
    assert library.problem == ""
    assert LastKnown(directory).find("files", CONFIG) == snapshot_of()


def test_text_that_no_file_can_hold_stops_nothing(tmp_path, caplog):
    library = LastKnown(tmp_path)
    library.note("files", CONFIG, structs.replace(snapshot_of(), instructions="\ud800"))
    library.save()
    assert "cannot save" in caplog.text
    assert os.listdir(tmp_path) == []


async def test_without_a_directory_nothing_is_kept(tmp_path):
    library = LastKnown(None)
    await library.prepare({"files": CONFIG})
    library.note("files", CONFIG, snapshot_of())
    assert library.find("files", CONFIG) is None
    library.save()
    assert not library.problem


@pytest.mark.covers("F-D-03")
def test_every_moment_of_a_write_leaves_the_old_or_the_new(tmp_path, monkeypatch):
    """A crash, or a full disk, at any of the calls that make a file."""
    new = snapshot_of(tools=("other",))
    for call in ("open", "fsync", "replace"):
        directory = tmp_path / call
        saved(directory)
        library = LastKnown(directory)
        library.note("files", CONFIG, new)

        def fail(*_, **__):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            library.save()
        assert "No space left" in library.problem
        assert os.listdir(directory) == ["files.json"]
        assert LastKnown(directory).find("files", CONFIG) == snapshot_of()
        library.save()
        assert LastKnown(directory).find("files", CONFIG) == new


FILES, OTHER = UpstreamConfig(command="files"), UpstreamConfig(command="other")


def test_a_server_is_remembered_for_a_day_by_what_it_is(tmp_path):
    now, memory = [1e9], Memory(tmp_path / "memory.json")
    last = LastConnected(memory, lambda: now[0])
    assert last.ago_s(FILES) is None
    last.note(FILES)
    memory.save()
    later = LastConnected(Memory(tmp_path / "memory.json"), lambda: now[0])
    now[0] += LATELY_S
    assert later.ago_s(FILES) == LATELY_S
    assert later.ago_s(OTHER) is None
    now[0] += 1
    assert later.ago_s(FILES) is None


def test_what_is_noted_all_the_time_is_seldom_written():
    now, memory = [1e9], Memory(None)
    last = LastConnected(memory, lambda: now[0])
    last.note(FILES)
    (key,) = memory.keys(SECTION)
    now[0] += NOTED_AGAIN_S - 1
    last.note(FILES)
    assert memory.get(SECTION, key) == 1e9
    now[0] += 1
    last.note(FILES)
    assert memory.get(SECTION, key) == now[0]


def test_what_is_long_gone_is_forgotten_and_a_clock_set_back_too():
    now, memory = [1e9], Memory(None)
    last = LastConnected(memory, lambda: now[0])
    last.note(FILES)
    now[0] -= 2 * LATELY_S
    assert last.ago_s(FILES) is None
    last.note(OTHER)
    assert len(memory.keys(SECTION)) == 1
    memory.put(SECTION, memory.keys(SECTION)[0], "noise")
    assert last.ago_s(OTHER) is None
