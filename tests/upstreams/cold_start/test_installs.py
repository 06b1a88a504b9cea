"""Servers that a package runner installs first: real processes, and short limits."""

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
from msgspec import structs

from config.diff import config_key
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import Restart, Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import Result
from tests.support.fakes import FakeHost, make_supervisor
from upstreams.cold_start.start_timeouts import StartLimits
from upstreams.lifecycle import State

FAKE = Path(__file__).parents[2] / "support" / "fake_npx.py"
LIMITS = StartLimits(allowance_s=60, quiet_s=4, cold_at_once=2)
"""A busy machine lets the demo server itself take seconds to start."""
START_S = 0.3


class Installs:
    """A supervisor of servers that are installed by a scripted npx."""

    def __init__(self, nursery, folder, *, memory=None, limits=LIMITS):
        self.folder = folder
        self.npx = folder / "npx"
        text = FAKE.read_text().partition("\n")[2]
        self.npx.write_text(f"#!{sys.executable} -S\n{text}")
        self.npx.chmod(0o755)
        self.memory = memory or Memory(None)
        self.supervisor = make_supervisor(self.memory, lambda name: None, start_limits=limits, drain_s=1)
        self._nursery = nursery

    def config(self, package, how="burn", *, start=START_S, attempts=1, env=None, **more):
        return UpstreamConfig(
            command=str(self.npx),
            args=("-y", package, how, str(self.folder)),
            timeouts=Timeouts(start=start, probe=60),
            restart=Restart(attempts=attempts),
            env={name: Secret(value) for name, value in (env or {}).items()},
            **more,
        )

    async def run(self, **configs):
        await self._nursery.start(self.supervisor.run, configs)

    def __getitem__(self, name):
        return self.supervisor.upstreams[name]

    def status(self, name="a"):
        return self[name].status()

    def release(self, *packages):
        for package in packages:
            (self.folder / package).touch()

    def noted(self, name="starts"):
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    async def until(self, condition, within_s=60):
        """Wait for what real processes do."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110 (they set no events)
                await trio.sleep(0.02)

    async def until_connected(self, *names):
        await self.until(lambda: all(self[name].state is State.CONNECTED for name in names))


@pytest.fixture
def installs(nursery, tmp_path):
    yield Installs(nursery, tmp_path)
    nursery.cancel_scope.cancel()


async def test_an_install_does_not_hide_that_a_server_is_modern(nursery, tmp_path):
    memory = Memory(None)
    async with trio.open_nursery() as first:
        installs = Installs(first, tmp_path, memory=memory)
        config = installs.config("a")
        config = structs.replace(config, timeouts=structs.replace(config.timeouts, probe=0.2))
        await installs.run(a=config)
        await installs.until(lambda: (installs.status().installing_s or 0) > 1)
        installs.release("a")
        await installs.until_connected("a")
        assert installs.status().era == "legacy", "it was asked long before it could answer"
        first.cancel_scope.cancel()
    assert memory.era(config_key(config)) is None, "which tells nothing about it"
    nursery.cancel_scope.cancel()


async def ask(upstream):
    try:
        return await upstream.call(Operation("tools/list", {}), FakeHost())
    except HubError as error:
        return str(error)


@pytest.mark.covers("FH-3")
async def test_an_install_that_is_at_work_is_not_ended_by_a_timeout(nursery, tmp_path):
    installs = Installs(nursery, tmp_path, limits=structs.replace(LIMITS, cold_at_once=3))
    ways = ("burn", "print", "fork")
    await installs.run(**{how: installs.config(how, how) for how in ways})
    longest_s = START_S + LIMITS.quiet_s + 1
    await installs.until(lambda: all((installs.status(how).installing_s or 0) > longest_s for how in ways))
    for how in ways:
        status = installs.status(how)
        assert (status.state, status.installing, status.queued, status.failures) == ("connecting", True, False, 0)
    installs.release(*ways)
    await installs.until_connected(*ways)
    assert sorted(installs.noted()) == sorted(ways), "each was started once"
    assert not any(installs.status(how).installing for how in ways)
    assert installs.status("burn").installing_s is None
    nursery.cancel_scope.cancel()


@pytest.mark.in_turn(6)
async def test_one_that_does_nothing_has_the_time_that_every_server_has(installs):
    await installs.run(a=installs.config("a", "hang"))
    await installs.until(lambda: installs["a"].state is State.FAILED, within_s=30)
    said = re.fullmatch(r"a did not complete the handshake within (\d+) seconds", installs.status().last_error)
    assert LIMITS.quiet_s <= int(said[1]) < LIMITS.allowance_s, "a busy machine notices later"
    assert not installs.status().installing


@pytest.mark.in_turn(6)
async def test_even_one_that_is_at_work_is_given_up_in_the_end(nursery, tmp_path):
    limits = StartLimits(allowance_s=3, quiet_s=2.5, cold_at_once=2)
    installs = Installs(nursery, tmp_path, limits=limits)
    await installs.run(a=installs.config("a"))
    await installs.until(lambda: installs["a"].state is State.FAILED, within_s=30)
    assert "did not complete the handshake within 3 seconds" in installs.status().last_error
    nursery.cancel_scope.cancel()


@pytest.mark.in_turn(6)
async def test_cold_starts_take_turns_and_nobody_else_waits_for_them(installs):
    names = "abcd"
    plain = UpstreamConfig(command=sys.executable, args=("-m", "upstreams.demo"))
    await installs.run(**{name: installs.config(name) for name in names}, plain=plain)
    await installs.until_connected("plain")
    await installs.until(lambda: len(installs.noted()) == 2)
    running = installs.noted()
    await installs.until(lambda: all((installs.status(name).installing_s or 0) > LIMITS.quiet_s for name in running))
    assert installs.noted() == running
    queued = [name for name in names if name not in running]
    assert all(installs.status(name).queued and not installs.status(name).installing for name in queued)
    assert "other servers are being installed first" in await ask(installs[queued[0]])
    installs.release(*running)
    await installs.until(lambda: len(installs.noted()) == 4)
    installs.release(*queued)
    await installs.until_connected(*names)
    assert sorted(installs.noted()) == list(names), "each was installed once"


async def test_a_package_runner_that_is_not_there_is_said_at_once(installs):
    missing = {"command": str(installs.folder / "nowhere" / "npx"), "args": ("-y", "c")}
    gone = structs.replace(installs.config("c"), **missing)
    await installs.run(a=installs.config("a"), b=installs.config("b"), gone=gone)
    await installs.until(lambda: len(installs.noted()) == 2)
    await installs.until(lambda: installs["gone"].state is State.FAILED)
    assert "was not found" in installs.status("gone").last_error
    assert all(installs[name].state is State.CONNECTING for name in "ab"), "they are still being installed"


@pytest.mark.in_turn(6)
async def test_a_cold_start_that_does_nothing_frees_its_turn(installs):
    hanging = [installs.config(name, "hang", start=60) for name in ("a", "b")]
    await installs.run(a=hanging[0], b=hanging[1])
    await installs.until(lambda: len(installs.noted()) == 2)
    await installs.supervisor.prepare({})
    installs.release("c")
    installs.supervisor.apply({"a": hanging[0], "b": hanging[1], "c": installs.config("c", start=60)})
    await installs.until_connected("c")
    assert installs["a"].state is State.CONNECTING


@pytest.mark.in_turn(6)
async def test_the_same_package_is_never_installed_twice_at_the_same_time(installs):
    versions = ("one@1.0.0", "one@2.0.0", "one@latest")
    await installs.run(**{f"s{number}": installs.config(name) for number, name in enumerate(versions)})
    for number in range(3):
        await installs.until(lambda number=number: len(installs.noted()) == number + 1)
        assert len(installs.noted("ends")) == number
        installs.release(installs.noted()[-1])
    await installs.until_connected("s0", "s1", "s2")


@pytest.mark.in_turn(6)
async def test_others_of_a_package_do_not_wait_once_it_is_installed(installs):
    """Together and at once, and they are not said to wait for an install."""
    configs = {f"s{number}": installs.config("one", env={"NUMBER": str(number)}) for number in range(3)}
    await installs.run(**configs)
    await installs.until(lambda: len(installs.noted()) == 1)
    await installs.until(lambda: sum(installs.status(name).queued for name in configs) == 2)
    later = {f"t{number}": installs.config("one", "hang", start=60, env={"NUMBER": str(number)}) for number in range(2)}
    installs.release("one")
    await installs.until_connected(*configs)
    (installs.folder / "one").unlink()  # so that the next ones are not ready soon
    await installs.supervisor.prepare({})
    installs.supervisor.apply(configs | later)
    await installs.until(lambda: len(installs.noted()) == 5)
    for name in later:
        status = installs.status(name)
        assert (status.state, status.installing, status.queued) == ("connecting", False, False)


@pytest.mark.in_turn(6)
async def test_what_was_connected_once_does_not_wait_for_installs(nursery, tmp_path):
    memory = Memory(None)
    async with trio.open_nursery() as first:
        installs = Installs(first, tmp_path, memory=memory)
        installs.release(*"abcd")
        configs = {name: installs.config(name) for name in "abcd"}
        await installs.run(**configs)
        await installs.until_connected(*"abcd")
        first.cancel_scope.cancel()
    for name in "abcd":
        (tmp_path / name).unlink()
    (tmp_path / "starts").unlink()
    installs = Installs(nursery, tmp_path, memory=memory)
    await installs.run(**configs)
    await installs.until(lambda: sorted(installs.noted()) == list("abcd"))
    await installs.until(lambda: installs.status().installing, within_s=60)
    assert installs.status().installing_s >= START_S, "it takes longer than a start: it is installed anew"
    installs.release(*"abcd")
    await installs.until_connected(*"abcd")
    nursery.cancel_scope.cancel()


@pytest.mark.in_turn(6)
async def test_twins_that_were_connected_once_do_not_wait_for_each_other(nursery, tmp_path):
    memory = Memory(None)
    async with trio.open_nursery() as first:
        installs = Installs(first, tmp_path, memory=memory)
        installs.release("one")
        configs = {name: installs.config("one", env={"NAME": name}) for name in "abc"}
        await installs.run(**configs)
        await installs.until_connected(*configs)
        first.cancel_scope.cancel()
    (tmp_path / "one").unlink()
    (tmp_path / "starts").unlink()
    installs = Installs(nursery, tmp_path, memory=memory)
    await installs.run(**configs)
    await installs.until(lambda: len(installs.noted()) == 3)
    assert not any(installs.status(name).queued for name in configs)
    nursery.cancel_scope.cancel()


@pytest.mark.in_turn(6)
async def test_the_server_that_a_host_calls_is_installed_next(nursery, tmp_path):
    installs = Installs(nursery, tmp_path, limits=structs.replace(LIMITS, cold_at_once=1))
    await installs.run(**{name: installs.config(name) for name in "abcd"})
    await installs.until(lambda: len(installs.noted()) == 1)
    called = next(name for name in "dcb" if name not in installs.noted())
    assert "other servers are being installed first" in await ask(installs[called])
    installs.release(*installs.noted())
    await installs.until(lambda: len(installs.noted()) == 2)
    assert installs.noted()[1] == called
    nursery.cancel_scope.cancel()


async def test_a_call_waits_as_long_as_for_any_start_and_is_told_of_the_install(installs):
    await installs.run(a=installs.config("a"))
    await installs.until(lambda: installs.status().installing)
    with trio.fail_after(60):
        error = await ask(installs["a"])
    assert error.startswith("a did not become ready within 0.3 seconds (state: connecting): its package is being ")
    assert "installed by npx, for " in error
    assert error.endswith("s so far. Try again in a minute; `hubd status` shows how far it is.")
    installs.release("a")
    await installs.until_connected("a")
    assert isinstance(await ask(installs["a"]), Result)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("act", ["restart", "remove", "disable", "change"])
async def test_a_command_ends_an_install_at_once(installs, act):
    a, b, c = map(installs.config, "abc")
    await installs.run(a=a, b=b)
    await installs.until(lambda: len(installs.noted()) == 2)
    begun = trio.current_time()
    if act == "restart":
        installs.supervisor.restart("a")
        await installs.until(lambda: installs.noted().count("a") == 2, within_s=60)
    else:
        after = {"remove": {}, "disable": {"a": structs.replace(a, disabled=True)}, "change": {"a": c}}
        installs.supervisor.apply(after[act] | {"b": b, "c": c})
        await installs.until(lambda: "c" in installs.noted(), within_s=60)
    assert trio.current_time() - begun < 15


async def test_a_hub_that_stops_waits_for_no_install(tmp_path):
    async with trio.open_nursery() as nursery:
        installs = Installs(nursery, tmp_path)
        await installs.run(**{name: installs.config(name) for name in "abcd"})
        await installs.until(lambda: len(installs.noted()) == 2)
        begun = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - begun < 10
    assert len(installs.noted()) == 2


def place(cache, package):
    from hashlib import sha512

    return cache / "_npx" / sha512(package.encode()).hexdigest()[:16]


def broken(cache, package):
    folder = place(cache, package)
    folder.mkdir(parents=True)
    (folder / "broken").touch()
    return folder


@pytest.mark.covers("FH-3")
async def test_a_broken_folder_of_npx_is_moved_aside_once_and_installed_anew(installs, tmp_path):
    cache = tmp_path / "cache"
    folder, other = broken(cache, "a@1"), broken(cache, "b@1")
    await installs.run(a=installs.config("a@1", "broken", attempts=5, env={"NPM_CONFIG_CACHE": str(cache)}, start=20))
    await installs.until(lambda: installs.status().last_error is not None)
    status = installs.status()
    assert status.last_error.splitlines()[0] == (
        "a cannot start: its folder in the cache of npx is incomplete (ERR_MODULE_NOT_FOUND); "
        "it was moved aside, and npx installs it anew"
    )
    assert f"_npx/{folder.name} is called {folder.name}.broken-1 now" in status.last_error
    await installs.until_connected("a")
    assert installs.noted() == ["a@1", "a@1"], "it is not started a second time without being mended"
    assert (folder.parent / f"{folder.name}.broken-1" / "broken").exists()
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted(
        [folder.name, f"{folder.name}.broken-1", other.name]
    )


async def test_a_folder_from_which_another_program_runs_is_left_where_it_is(installs, tmp_path):
    cache = tmp_path / "cache"
    folder = broken(cache, "a")
    script = folder / "other.sh"
    script.write_text("read line\n")
    async with trio.open_nursery() as nursery:
        other = await nursery.start(partial(trio.run_process, ["sh", str(script)], stdin=subprocess.PIPE, check=False))
        await installs.run(a=installs.config("a", "broken", env={"NPM_CONFIG_CACHE": str(cache)}, start=20))
        await installs.until(lambda: installs["a"].state is State.FAILED)
        error = installs.status().last_error
        assert "is incomplete (ERR_MODULE_NOT_FOUND), and another program runs from it" in error
        assert f"end process {other.pid} and restart the server" in error
        assert folder.is_dir()
        await other.stdin.aclose()
    installs.supervisor.restart("a")
    await installs.until((folder.parent / f"{folder.name}.broken-1").is_dir)


async def test_a_folder_that_breaks_again_is_left_where_it_is(installs, tmp_path):
    cache = tmp_path / "cache"
    await installs.run(a=installs.config("a", "spoilt", attempts=3, env={"NPM_CONFIG_CACHE": str(cache)}, start=20))
    await installs.until(lambda: installs["a"].state is State.FAILED)
    assert "incomplete (ERR_MODULE_NOT_FOUND), again after it was installed anew" in installs.status().last_error
    assert f"_npx/{place(cache, 'a').name}" in installs.status().last_error.partition("rm -r ")[2]
    assert len(list((cache / "_npx").iterdir())) == 2


async def test_only_the_folder_of_the_server_itself_is_ever_moved(installs, tmp_path):
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    own, foreign, other = broken(cache, "a"), broken(elsewhere, "a"), broken(cache, "other")
    for says in (foreign, other, own.parent, tmp_path / "_npx" / own.name):
        env = {"NPM_CONFIG_CACHE": str(cache), "SAYS": str(says)}
        installs = Installs(installs._nursery, tmp_path)
        await installs.run(a=installs.config("a", "broken", env=env, start=20))
        await installs.until(lambda: installs["a"].state is State.FAILED)  # noqa: B023
        assert "exited with status 1" in installs.status().last_error
        assert all(folder.is_dir() for folder in (own, foreign, other))
    shutil.rmtree(own)
    os.symlink(foreign, own)
    env = {"NPM_CONFIG_CACHE": str(cache)}
    installs = Installs(installs._nursery, tmp_path)
    await installs.run(a=installs.config("a", "broken", env=env, start=20))
    await installs.until(lambda: installs["a"].state is State.FAILED)
    assert own.is_symlink()
    assert foreign.is_dir(), "links are not followed"
