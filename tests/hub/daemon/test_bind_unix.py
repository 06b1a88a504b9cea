"""The unix sockets of the daemon, and its lock, over real files."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from config.diagnostics import ConfigError
from hub.daemon.bind_unix import AlreadyRunning, await_removal, bind_unix, take_lock
from hub.linux.peer_credentials import peer_uid


@pytest.mark.covers("F-D-09")
def test_the_second_one_is_told_who_has_the_lock(tmp_path):
    path = tmp_path / "hubd.lock"
    with (
        take_lock(path),
        pytest.raises(AlreadyRunning, match=rf"already running \(process {os.getpid()}\); `hubd stop`"),
        take_lock(path),
    ):
        pass
    assert path.stat().st_mode & 0o777 == 0o600
    with take_lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.covers("F-D-09")
def test_of_many_processes_one_gets_the_lock(tmp_path):
    code = """if True:
        import sys; from pathlib import Path; from hub.daemon.bind_unix import AlreadyRunning, take_lock
        try:
            with take_lock(Path(sys.argv[1])):
                print("mine", flush=True)
                sys.stdin.read()
        except AlreadyRunning as error:
            print(error, flush=True)
    """
    pipe = subprocess.PIPE
    argv = [sys.executable, "-I", "-c", code, str(tmp_path / "lock")]
    racers = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    said = [racer.stdout.readline().strip() for racer in racers]
    for racer in racers:
        racer.communicate(timeout=30)
    [winner] = [racer.pid for racer, line in zip(racers, said, strict=True) if line == "mine"]
    assert sum(f"(process {winner})" in line for line in said) == 5


@pytest.mark.covers("F-D-09")
def test_a_dead_holder_s_lock_is_free(tmp_path):
    path = tmp_path / "lock"
    code = "import os, sys; from pathlib import Path; from hub.daemon.bind_unix import take_lock; "
    subprocess.run(
        [sys.executable, "-I", "-c", code + "take_lock(Path(sys.argv[1])).__enter__(); os._exit(9)", str(path)],
        check=False,
    )
    with take_lock(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_lock_is_not_made_through_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot make the lock"):
        take_lock(tmp_path / "lock").__enter__()


@pytest.mark.covers("SEC-04")
def test_a_socket_is_private_whatever_the_umask(tmp_path):
    path = tmp_path / "s"
    before = os.umask(0)
    try:
        listener = bind_unix(path)
    finally:
        os.umask(before)
    with listener:
        assert path.stat().st_mode & 0o777 == 0o600
        assert listener.getblocking() is False
        assert os.listdir(tmp_path) == ["s"], "the draft is gone"
        assert os.get_inheritable(listener.fileno()) is False


@pytest.mark.covers("F-D-10")
def test_a_stale_socket_is_replaced(tmp_path):
    path = tmp_path / "s"
    bind_unix(path).close()
    assert stat.S_ISSOCK(path.stat().st_mode)
    with bind_unix(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


@pytest.mark.covers("F-D-10")
def test_a_living_socket_is_left_alone(tmp_path):
    path = tmp_path / "s"
    with bind_unix(path):
        inode = path.stat().st_ino
        with pytest.raises(AlreadyRunning, match="already listens on"):
            bind_unix(path)
        assert path.stat().st_ino == inode


@pytest.mark.covers("F-D-10")
@pytest.mark.parametrize("there", ["file", "directory", "link to a socket", "dangling link", "fifo"])
def test_anything_else_is_refused_and_left_alone(tmp_path, there):
    path = tmp_path / "s"
    match there:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "link to a socket":
            bind_unix(tmp_path / "other").close()
            path.symlink_to(tmp_path / "other")
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(ConfigError, match="is not a socket: move it away"):
        bind_unix(path)
    assert path.lstat().st_ino == before.st_ino


def test_a_missing_directory_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot make the socket .*: No such file"):
        bind_unix(tmp_path / "absent" / "s")


@pytest.mark.covers("SEC-04")
async def test_the_kernel_says_who_connects(tmp_path: Path):
    path = tmp_path / "s"
    with bind_unix(path) as listener:
        async with await trio.open_unix_socket(str(path)) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert peer_uid(accepted) == peer_uid(client.socket) == os.getuid()


@pytest.mark.covers("F-D-03")
@pytest.mark.parametrize("how", [Path.unlink, lambda path: path.with_name("new").replace(path)], ids=["gone", "other"])
async def test_a_hub_whose_files_are_removed_makes_way(autojump_clock, tmp_path, caplog, how):
    own = [tmp_path / name for name in ("hubd.lock", "hubd.sock", "new")]
    for path in own:
        path.touch()
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(await_removal, own[:2], gone.set)
        await trio.sleep(1000)
        assert not gone.is_set()
        with contextlib.ExitStack() as stack:
            stack.enter_context(own[1].open())
            how(own[1])
            with trio.fail_after(20):
                await gone.wait()
    assert "hubd.sock was removed" in caplog.text
