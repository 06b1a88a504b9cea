"""One reload at a time, none lost, and what is shown of them: with an applier that takes its time."""

from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
from msgspec import structs

from config.diagnostics import ConfigError
from config.loading.assemble import Loaded, load_all
from config.settings import HubConfig
from hub.daemon.reload import Reloader

EMPTY = Loaded(config=HubConfig())


class Stage:
    """What a reloader reads, and applies it to."""

    def __init__(self, first=EMPTY):
        self.next = first
        self.reads = 0
        self.applied = []
        self.at_once = 0
        self.around = 0
        self.gate = trio.Event()
        self.gate.set()
        self.has_applied = trio.Event()
        self.reloader = Reloader(first, self.read, self.apply, wall=lambda: 0.0, around=self.be_around)

    def read(self):
        self.reads += 1
        if isinstance(self.next, Exception):
            raise self.next
        return self.next

    async def apply(self, loaded, found):
        self.at_once += 1
        assert self.at_once == 1
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        self.applied.append(loaded.config.page_size)
        self.has_applied.set()

    @contextmanager
    def be_around(self):
        self.around += 1
        yield

    def says(self, page_size):
        self.next = structs.replace(EMPTY, config=HubConfig(page_size=page_size))


@asynccontextmanager
async def staged(first=EMPTY):
    stage = Stage(first)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.reloader.run)
        with trio.fail_after(30):
            yield stage
        nursery.cancel_scope.cancel()


@pytest.mark.covers("F-C-08")
async def test_reloads_follow_each_other_and_the_last_one_counts(nursery):
    async with staged() as stage:
        stage.gate = trio.Event()
        outcomes = []

        async def reload():
            outcomes.append(await stage.reloader.reload())

        for size in range(1, 10):
            stage.says(size)
            nursery.start_soon(reload)
            await trio.testing.wait_all_tasks_blocked()
        stage.gate.set()
        outcomes.append(await stage.reloader.reload())
        await trio.testing.wait_all_tasks_blocked()
        assert len(outcomes) == 10
        assert stage.applied[-1] == 9
        assert len(stage.applied) <= 9
        assert all(outcome.problem is None for outcome in outcomes)


@pytest.mark.covers("F-C-05")
async def test_what_is_the_same_is_not_applied():
    async with staged() as stage:
        outcome = await stage.reloader.reload()
        assert not outcome.changed
        assert stage.applied == []
        assert stage.around == 1, "it was asked for"
        stage.says(3)
        assert (await stage.reloader.reload()).summary == "settings page_size"
        told = await stage.reloader.reload()
        assert told.summary == "nothing changed; the last change was applied already: settings page_size"
        assert stage.applied == [3]


@pytest.mark.covers("POL-16")
async def test_rules_that_stand_elsewhere_now_are_named_there(tmp_path):
    file = tmp_path / "hubd.toml"
    file.write_text('[policy]\ndeny = ["x"]\n[upstreams.a]\ncommand = "a"\n')
    async with staged(load_all(file, {})) as stage:
        file.write_text(f"# said later\n{file.read_text()}")
        stage.next = load_all(file, {})
        assert not (await stage.reloader.reload()).changed
        assert len(stage.applied) == 1
        file.write_text(f"{file.read_text()}# at the end\n")
        stage.next = load_all(file, {})
        await stage.reloader.reload()
        assert len(stage.applied) == 1


@pytest.mark.covers("F-C-02")
async def test_a_problem_is_said_once_and_kept_until_it_is_none(caplog):
    async with staged() as stage:
        stage.next = ConfigError("hubd.toml, line 3: no")
        for _ in range(3):
            outcome = await stage.reloader.reload()
            assert outcome.problem == "hubd.toml, line 3: no"
        assert stage.reloader.status().problem == "hubd.toml, line 3: no"
        assert caplog.text.count("line 3") == 1
        stage.next = EMPTY
        assert (await stage.reloader.reload()).problem is None
        assert stage.reloader.status().problem is None
        assert stage.applied == []


async def test_a_fault_of_ours_is_a_problem_and_no_end(caplog):
    async with staged() as stage:
        stage.next = RuntimeError("bug")
        assert "RuntimeError" in (await stage.reloader.reload()).problem
        stage.says(4)
        assert (await stage.reloader.reload()).problem is None
        assert stage.applied == [4]


@pytest.mark.covers("F-C-03")
async def test_files_that_are_gone_say_nothing(tmp_path):
    main, more = tmp_path / "hubd.toml", tmp_path / "upstreams.d"
    more.mkdir()
    first = Loaded(config=HubConfig(), files=(main,), directories=(more,), named_directories=(more,), sources=(main,))
    async with staged(first) as stage:
        stage.next = structs.replace(first, config=HubConfig(page_size=1), sources=())
        assert f"{main}: is gone" in (await stage.reloader.reload()).problem
        stage.next = structs.replace(first, config=HubConfig(page_size=2))
        more.rmdir()
        assert f"{more}: is gone" in (await stage.reloader.reload()).problem
        more.mkdir()
        assert (await stage.reloader.reload()).problem is None
        assert stage.applied == [2]
        assert stage.reloader.status().files == (str(main),)


@pytest.mark.covers("F-C-03")
async def test_a_directory_that_a_pattern_found_may_go(tmp_path):
    """To remove it is to remove what was in it, as with a file of `upstreams.d`."""
    found = tmp_path / "found"
    found.mkdir()
    first = structs.replace(EMPTY, directories=(tmp_path, found), named_directories=(tmp_path,))
    async with staged(first) as stage:
        found.rmdir()
        stage.next = structs.replace(first, config=HubConfig(page_size=1), directories=(tmp_path,))
        assert (await stage.reloader.reload()).problem is None
        assert stage.applied == [1]


async def test_what_is_watched_after_an_error_is_what_it_names(tmp_path):
    """A file that was included only by what is wrong now."""
    wrong = trio.Path(tmp_path / "wrong.toml")
    await wrong.write_text("one")
    async with staged() as stage:
        stage.next = ConfigError("wrong.toml: no")
        stage.next.files = (Path(wrong),)
        await stage.reloader.reload()
        stage.says(5)
        await wrong.write_text("two")
        await stage.has_applied.wait()
        assert stage.applied == [5]


class Wavering(Stage):
    """A file that says something else only while it is first read: 1 when looked at, 2 when read, then 1 again."""

    def __init__(self, file):
        self.file = file
        file.write_text("1")
        super().__init__(Loaded(config=HubConfig(page_size=1), files=(file,), sources=(file,)))

    def read(self):
        if not self.reads:
            self.file.write_text("2")
        loaded = structs.replace(self.next, config=HubConfig(page_size=int(self.file.read_text())))
        self.file.write_text("1")
        return super().read() and loaded


@pytest.mark.covers("F-C-04")
async def test_what_files_say_in_the_end_counts_also_if_they_were_read_in_between(tmp_path):
    stage = Wavering(tmp_path / "hubd.toml")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.reloader.run)
            for size in (2, 1):
                await stage.has_applied.wait()
                stage.has_applied = trio.Event()
                assert stage.applied[-1] == size
            nursery.cancel_scope.cancel()
    assert stage.applied == [2, 1]


async def test_a_variable_that_lacks_belongs_into_hubd_env_and_a_file_does_not(tmp_path):
    main = tmp_path / "hubd.toml"
    b = "[upstreams.b]\nurl = 'http://x'\nheaders = { X = '${file:none}' }\n"
    main.write_text(f"[upstreams.a]\nurl = '${{NOT_SET}}'\n{b}")
    async with staged(load_all(main, {}, partly=True)) as stage:
        reasons = stage.reloader.reasons_left_out()
    assert f"Once it is there, in {tmp_path / 'hubd.env'} for instance, the server" in reasons["a"]
    assert "Once it is there the server" in reasons["b"]
