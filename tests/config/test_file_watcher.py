"""Files that change in every way that editors and systems have: each is noticed once, whatever it was."""

import os
import shutil
from contextlib import asynccontextmanager

import pytest
import trio
from watchfiles import _rust_notify
from watchfiles._rust_notify import WatchfilesRustInternalError

from config.file_watcher import POLL_S, STEP_MS, Watcher, inspect
from config.safe_reading import MAX_PROJECT_BYTES
from hub.linux import inotify
from tests.support.everything import draw


def test_links_in_a_circle_are_no_trap(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    digest, lookouts = inspect([tmp_path / "a"], [tmp_path / "b"])
    assert digest
    assert str(tmp_path) in lookouts


def test_what_is_too_large_is_not_read_to_its_end(tmp_path):
    (tmp_path / ".hubd.toml").write_bytes(b"x" * (MAX_PROJECT_BYTES + 10))
    before = inspect([tmp_path / ".hubd.toml"], [])
    (tmp_path / ".hubd.toml").write_bytes(b"x" * (MAX_PROJECT_BYTES + 5))
    assert inspect([tmp_path / ".hubd.toml"], []) == before


PATIENCE_S = 30.0
QUIET_S = 0.6
"""Longer than any change takes to be noticed."""


class Eye:
    """A watcher, and how often it has seen something."""

    def __init__(self):
        self.times = 0
        self._news = trio.Event()
        self.watcher = Watcher(self.see)

    def see(self):
        self.times += 1
        self._news.set()

    async def sees(self):
        """Wait until it sees something."""
        with trio.fail_after(PATIENCE_S):
            await self._news.wait()
        self._news = trio.Event()

    async def sees_nothing(self):
        with trio.move_on_after(QUIET_S):
            await self._news.wait()
            raise AssertionError("something was seen")

    async def is_ready(self):
        """Wait until it has had its first look, and no second one is due."""
        await self.sees()
        await self.sees_nothing()


@asynccontextmanager
async def watching(*files, directories=(), eye=None):
    eye = eye or Eye()
    eye.watcher.watch(files, directories)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(eye.watcher.run)
        await eye.is_ready()
        yield eye
        nursery.cancel_scope.cancel()


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "config"
    place.mkdir()
    (place / "hubd.toml").write_text("one")
    return place


def write_in_place(file):
    file.write_text("two")


def rename_over(file):
    draft = file.with_name("draft")
    draft.write_text("two")
    draft.rename(file)


def save_as_vim_does(file):
    file.rename(file.with_name("hubd.toml~"))
    file.write_text("two")
    file.with_name("hubd.toml~").unlink()


def delete(file):
    file.unlink()


def make_unreadable(file):
    file.unlink()
    os.mkfifo(file)


def make_a_directory(file):
    file.unlink()
    file.mkdir()


WAYS = [write_in_place, rename_over, save_as_vim_does, delete, make_unreadable, make_a_directory]


WATCHED_BY = ["the library watches", "the kernel is waited for", "the kernel has nothing for it"]


@pytest.fixture
def watched_by(request, monkeypatch):
    if request.param != "the library watches":
        monkeypatch.setattr("config.file_watcher.QUIET_S", -1.0)
    if request.param == "the kernel has nothing for it":
        monkeypatch.setattr(inotify, "_library", no_library)


def no_library():
    raise OSError("there is none")


@pytest.mark.covers("F-C-04", "F-C-03")
@pytest.mark.parametrize(("watched_by", "way"), draw(7, WATCHED_BY, WAYS), indirect=["watched_by"])
async def test_every_way_to_save_is_noticed_and_so_is_the_next(place, watched_by, way):
    file = place / "hubd.toml"
    async with watching(file) as eye:
        way(file)
        await eye.sees()
        if file.is_dir():
            file.rmdir()
        else:
            file.unlink(missing_ok=True)
        file.write_text("three")
        await eye.sees()
        rename_over(file)
        await eye.sees()


@pytest.mark.covers("F-C-04")
async def test_new_files_of_every_kind_and_new_directories_count(place):
    """A pattern may lead to what will be in a new directory."""
    async with watching(directories=[place]) as eye:
        for name in ("a.toml", "b.json", "c.yaml", "d.yml"):
            (place / name).write_text("new")
            await eye.sees()
        (place / "x").mkdir()
        await eye.sees()
        (place / "notes.txt").write_text("new")
        (place / ".hidden").mkdir()
        await eye.sees_nothing()


@pytest.mark.covers("F-C-03")
async def test_that_a_directory_is_there_counts_though_it_is_empty(place):
    async with watching(directories=[place / "upstreams.d"]) as eye:
        for change in (os.mkdir, os.rmdir, os.mkdir):
            change(place / "upstreams.d")
            await eye.sees()


@pytest.mark.covers("F-C-04")
async def test_a_directory_whose_name_is_not_utf_8_is_looked_at_now_and_then(tmp_path):
    place = tmp_path / "caf\udce9"
    place.mkdir()
    async with watching(place / "hubd.toml") as eye:
        (place / "hubd.toml").write_text("one")
        await eye.sees()


@pytest.mark.covers("F-C-04")
async def test_links_are_followed_as_kubernetes_swaps_them(place):
    file = place / "hubd.toml"
    file.unlink()
    for number in (1, 2, 3):
        (place / f"..{number}").mkdir()
        (place / f"..{number}" / "hubd.toml").write_text(str(number))
    (place / "..data").symlink_to("..1")
    file.symlink_to("..data/hubd.toml")
    async with watching(file) as eye:
        for number in (2, 3, 1):
            (place / "..new").symlink_to(f"..{number}")
            (place / "..new").rename(place / "..data")
            await eye.sees()
        (place / "..1" / "hubd.toml").write_text("changed")
        await eye.sees()


@pytest.mark.covers("F-C-04")
async def test_a_file_behind_links_elsewhere(place, tmp_path):
    real, other = tmp_path / "real", tmp_path / "dotfiles"
    real.mkdir()
    other.mkdir()
    (real / "hubd.toml").write_text("one")
    (other / "link").symlink_to(real / "hubd.toml")
    file = place / "hubd.toml"
    file.unlink()
    file.symlink_to(other / "link")
    async with watching(file) as eye:
        rename_over(real / "hubd.toml")
        await eye.sees()
        (real / "else.toml").write_text("else")
        (other / "link").unlink()
        (other / "link").symlink_to(real / "else.toml")
        await eye.sees()


@pytest.mark.covers("F-C-03", "F-C-04")
async def test_a_directory_that_goes_and_comes_back(place):
    file = place / "hubd.toml"
    async with watching(file) as eye:
        shutil.rmtree(place)
        await eye.sees()
        place.mkdir()
        file.write_text("two")
        await eye.sees()
        other = place.with_name("other")
        other.mkdir()
        (other / "hubd.toml").write_text("three")
        place.rename(place.with_name("old"))
        other.rename(place)
        await eye.sees()
        file.write_text("four")
        await eye.sees()


async def test_what_is_not_there_yet(tmp_path):
    file = tmp_path / "a" / "b" / "hubd.toml"
    async with watching(file) as eye:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").mkdir()
        file.write_text("one")
        await eye.sees()


async def test_files_that_come_into_a_directory_count_if_they_are_configuration(place):
    async with watching(place / "hubd.toml", directories=[place / "upstreams.d"]) as eye:
        (place / "upstreams.d").mkdir()
        (place / "upstreams.d" / "a.toml").write_text("one")
        await eye.sees()
        (place / "upstreams.d" / "b.json").write_text("one")
        await eye.sees()
        (place / "upstreams.d" / "notes.txt").write_text("one")
        await eye.sees_nothing()
        (place / "upstreams.d" / "a.toml").unlink()
        await eye.sees()


@pytest.mark.covers("F-C-04", "F-C-05")
async def test_contents_decide(place):
    file = place / "hubd.toml"
    async with watching(file) as eye:
        os.utime(file, (1, 1))
        (place / "other.toml").write_text("x")
        file.write_text("one")
        rename = file.with_name("draft")
        rename.write_text("one")
        rename.rename(file)
        await eye.sees_nothing()


@pytest.mark.covers("F-C-04")
async def test_many_saves_are_noticed_a_few_times_and_the_last_one_is(place):
    file = place / "hubd.toml"

    class Reading(Eye):
        def see(self):
            self.read = file.read_text()
            super().see()

    async with watching(file, eye=Reading()) as eye:
        before, began = eye.times, trio.current_time()
        for number in range(50):
            file.write_text(str(number))
            await trio.sleep(0.02)
        while eye.read != "49":
            await eye.sees()
        steps = (trio.current_time() - began) * 1000 / STEP_MS
        assert 1 <= eye.times - before <= steps + 1, "once in each step at most, however long all of it takes"


async def test_what_differs_whenever_it_is_read_is_not_read_without_a_pause(place):
    """Some files of the kernel do: it is looked at again once, and then when there is a reason to."""

    class Differing(Eye):
        def see(self):
            super().see()
            self.watcher.look_again()

        async def calms_down(self):
            with trio.fail_after(PATIENCE_S):
                while self.times < 2:
                    await self.sees()
                await self.sees_nothing()

    eye = Differing()
    eye.watcher.watch([place / "hubd.toml"], ())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(eye.watcher.run)
        await eye.calms_down()
        eye.times = 0
        write_in_place(place / "hubd.toml")
        await eye.calms_down()
        nursery.cancel_scope.cancel()


async def test_another_aim_takes_effect_at_once(place):
    file, other = place / "hubd.toml", place.parent / "else" / "other.toml"
    other.parent.mkdir()
    other.write_text("one")
    async with watching(file) as eye:
        eye.watcher.watch([other], [])
        await eye.is_ready()
        file.write_text("two")
        await eye.sees_nothing()
        other.write_text("two")
        await eye.sees()
        eye.watcher.watch([other], [])
        await eye.sees_nothing()


async def test_it_is_cancelled_fast(place):
    """A thread that waits for changes keeps nobody waiting."""
    with trio.fail_after(POLL_S / 3):
        async with watching(place / "hubd.toml"):
            pass


async def test_without_notifications_files_are_looked_at(place, monkeypatch):
    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refuse)
    monkeypatch.setattr("config.file_watcher.POLL_ALONE_S", 0.1)
    async with watching(place / "hubd.toml") as eye:
        (place / "hubd.toml").write_text("two")
        await eye.sees()


def refuse(*_):
    raise OSError(28, "No space left on device")


class Refusing:
    """In place of a watcher of the system: refuses as one does whose user has no inotify instances left."""

    refuses = True
    made = 0

    def __init__(self, *arguments):
        Refusing.made += 1
        if self.refuses:
            raise WatchfilesRustInternalError("Error creating recommended watcher: Too many open files (os error 24)")

    def watch(self, *arguments):
        raise WatchfilesRustInternalError("error in underlying watcher: Too many open files (os error 24)")


@pytest.mark.covers("F-D-07", "F-D-13")
@pytest.mark.parametrize("refuses", [True, False], ids=["made", "used"])
async def test_without_inotify_it_is_looked_at_often(place, monkeypatch, caplog, refuses):
    monkeypatch.setattr(_rust_notify, "RustNotify", Refusing)
    monkeypatch.setattr(Refusing, "refuses", refuses)
    monkeypatch.setattr("config.file_watcher.POLL_ALONE_S", 0.05)
    async with watching(place / "hubd.toml") as eye:
        (place / "hubd.toml").write_text("two")
        await eye.sees()
    warnings = [record.getMessage() for record in caplog.records if "cannot watch" in record.getMessage()]
    assert len(warnings) == 1
    assert "Too many open files" in warnings[0]


@pytest.mark.covers("F-D-07")
async def test_it_is_watched_again_when_that_is_possible(place, monkeypatch, caplog):
    caplog.set_level("INFO")
    real = _rust_notify.RustNotify
    monkeypatch.setattr(_rust_notify, "RustNotify", Refusing)
    monkeypatch.setattr("config.file_watcher.POLL_ALONE_S", 0.01)
    async with watching(place / "hubd.toml") as eye:
        monkeypatch.setattr(_rust_notify, "RustNotify", real)
        with trio.fail_after(PATIENCE_S):
            while "watched again" not in caplog.text:  # noqa: ASYNC110
                await trio.sleep(0.01)
        (place / "hubd.toml").write_text("two")
        await eye.sees()
