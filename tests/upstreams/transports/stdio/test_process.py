"""Real processes: what they are given, what they say, how they end, and that nothing of them is left."""

import errno
import json
import os
import resource
import sys
from pathlib import Path

import pytest
import trio

from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from hub.linux.child_limits import DESCRIPTORS_OF_CHILD, KEPT_DESCRIPTORS, MOST_DESCRIPTORS, OOM_SCORE
from hub.linux.child_marks import MARKER
from tests.support.descriptors import no_descriptor_left
from upstreams.transports.stdio.process import (
    CLOSE_GRACE_S,
    LAST_OUTPUT_S,
    STDERR_READ_BYTES,
    TERM_GRACE_S,
    Child,
    child_environment,
)
from upstreams.transports.stdio.stderr import TURN, StderrLog

SCRIPTED = Path(__file__).parents[3] / "support" / "scripted.py"


def scripted(script, **config):
    return UpstreamConfig(command=sys.executable, args=("-I", "-S", str(SCRIPTED), json.dumps(script)), **config)


def python(program, **config):
    return UpstreamConfig(command=sys.executable, args=("-I", "-S", "-c", program), **config)


async def read_all(stream):
    data = bytearray()
    while part := await stream.receive_some(1 << 16):
        data += part
    return bytes(data)


def oom_score():
    return int(Path("/proc/self/oom_score_adj").read_text())


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- start ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-51", "I-9")
async def test_a_child_knows_only_what_it_should():
    environ = {
        "HOME": "/home/me",
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "LANG": "() { :; }; echo hacked",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "PYTHONPATH": "/evil",
    }
    config = python("import os, json; print(json.dumps(dict(os.environ)))", env={"TOKEN": Secret("declared")})
    child = Child(config, "c", environ)
    known = json.loads(await read_all(child.stdout))
    await child.stop()
    assert known.pop(MARKER) == child.marker
    assert child.marker.startswith(f"{os.getpid()}.")
    assert known == {"HOME": "/home/me", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TOKEN": "declared"}


def test_what_is_declared_wins():
    config = UpstreamConfig(command="x", env={"PATH": Secret("/mine")})
    assert child_environment(config, {"PATH": "/theirs", "USER": "me"}) == {"PATH": "/mine", "USER": "me"}


@pytest.mark.covers("SEC-52")
async def test_a_child_has_a_session_of_its_own_and_three_descriptors(tmp_path):
    program = "import os; print(os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd')))[:4])"
    child = Child(python(program, cwd=str(tmp_path)), "c", os.environ)
    said = (await read_all(child.stdout)).decode()
    await child.stop()
    assert said.startswith("True [0, 1, 2, 3]")  # 3 is that of listdir


LIMITED = """if True:
    import ctypes, json, os, resource
    from pathlib import Path
    death = ctypes.c_int(-1)
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))  # PR_GET_PDEATHSIG
    input()
    print(json.dumps({
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "umask": os.umask(0),
        "death": death.value,
    }))
"""


@pytest.mark.covers("SEC-52", "F-P-24", "F-D-08", "M-04")
async def test_a_child_has_limits_and_goes_before_the_hub_when_memory_runs_out():
    own = oom_score()
    config = UpstreamConfig(command=sys.executable, args=("-I", "-c", LIMITED))
    child = Child(config, "c", os.environ)
    await child.stdin.send_all(b"\n")
    said = json.loads(await read_all(child.stdout))
    await child.stop()
    soft, hard = said.pop("files")
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == min(ours[0], MOST_DESCRIPTORS)
    assert hard == min(ours[1], MOST_DESCRIPTORS)
    assert said == {"core": [0, 0], "oom": min(1000, own + OOM_SCORE), "umask": 0o077, "death": 0}


@pytest.mark.covers("F-D-07")
async def test_the_last_descriptors_are_for_others():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.open("/", os.O_RDONLY))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + DESCRIPTORS_OF_CHILD, hard))
        with pytest.raises(UpstreamUnavailable, match="too many open files"):
            Child(python("print('well')"), "c", os.environ)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + DESCRIPTORS_OF_CHILD + KEPT_DESCRIPTORS, hard))
        child = Child(python("print('well')"), "c", os.environ)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await read_all(child.stdout) == b"well\n"
    await child.stop()


@pytest.mark.covers("F-P-24")
async def test_a_child_that_leaks_descriptors_meets_its_own_limit_only():
    program = """if True:
        import os, resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        input()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            while True: os.dup(0)
        except OSError as error:
            print(error.strerror, hard, flush=True)
        input()
    """
    child = Child(python(program), "c", os.environ)
    await child.stdin.send_all(b"\n")
    with trio.fail_after(30):
        said = await child.stdout.receive_some()
    words, _, limit = said.decode().strip().rpartition(" ")
    assert words == "Too many open files"
    assert int(limit) <= MOST_DESCRIPTORS
    other = Child(python("print('well')"), "o", os.environ)
    assert await read_all(other.stdout) == b"well\n"
    await other.stop()
    await child.stop()


@pytest.mark.covers("F-D-15", "F-P-01")
async def test_a_program_that_is_being_written_cannot_be_started_yet(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    with (
        program.open("ab"),
        pytest.raises(UpstreamUnavailable, match=r"'program' is being written; .* when it is whole"),
    ):
        Child(UpstreamConfig(command=str(program)), "c", os.environ)


@pytest.mark.covers("F-D-15", "F-P-01", "I-12")
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EAGAIN, "more processes than this user may have"),
        (errno.ENOMEM, "there is no memory left"),
        (errno.EMFILE, "too many open files"),
        (errno.EIO, "input/output error"),
    ],
)
async def test_a_system_that_starts_no_more_processes_is_no_fault_of_the_hub(monkeypatch, number, reason):
    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("upstreams.transports.stdio.process.spawn", fail)
    with no_descriptor_left():
        with pytest.raises(UpstreamUnavailable) as caught:
            Child(UpstreamConfig(command="sleep", args=("300",)), "c", os.environ)
        assert reason in str(caught.value)


@pytest.mark.covers("F-P-01")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda at: {"command": "no-such-command-anywhere"}, "give the full path as command"),
        (
            lambda at: {"command": str(at / "nothing")},
            "'nothing' was not found, or its interpreter was not; install it there",
        ),
        (lambda at: {"command": str(at)}, "may not be executed"),
        (lambda at: {"command": str(write(at / "plain", "echo", 0o644))}, "may not be executed"),
        (lambda at: {"command": str(write(at / "script", "#!/no/such/interpreter\n", 0o755))}, "interpreter was not"),
        (lambda at: {"command": str(write(at / "garbage", "\0\1\2\3", 0o755))}, "exec format error"),
        (lambda at: {"command": "sh", "cwd": str(at / "missing")}, "cwd is not a directory"),
        (lambda at: {"command": "sh", "args": ("\0",)}, "with these arguments"),
    ],
)
async def test_a_command_that_cannot_be_started_says_why(tmp_path, make, reason):
    with pytest.raises(UpstreamUnavailable) as caught:
        Child(UpstreamConfig(**make(tmp_path)), "c", os.environ)
    assert reason in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.covers("F-P-01", "I-12")
@pytest.mark.parametrize("fails", range(4))
async def test_a_child_that_cannot_be_watched_is_not_left_running(monkeypatch, fails):
    started = []
    counter = iter(range(100))

    def scarce(real):
        def get(number):
            if real is os_pidfd_open:
                started.append(number)
            if next(counter) == fails:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(number)

        return get

    os_pidfd_open = os.pidfd_open
    monkeypatch.setattr(os, "pidfd_open", scarce(os.pidfd_open))
    monkeypatch.setattr(os, "dup", scarce(os.dup))
    with no_descriptor_left():
        with pytest.raises(UpstreamUnavailable, match=r"cannot be executed \(too many open files\)"):
            Child(UpstreamConfig(command="sleep", args=("300",)), "c", os.environ)
        [pid] = started
        assert str(pid) not in os.listdir("/proc")


def write(path, text, mode):
    path.write_text(text)
    path.chmod(mode)
    return path


# --- end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "ending"),
    [
        ("", "exited with status 0"),
        ("raise SystemExit(3)", "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "was killed by signal 40"),
    ],
)
async def test_how_it_ended(nursery, program, ending):
    child = Child(python(program), "c", os.environ)
    nursery.start_soon(child.watch)
    await child.gone.wait()
    assert child.ending() == ""  # not reaped
    await child.stop()
    assert child.ending() == ending


@pytest.mark.covers("T-4")
async def test_a_polite_child_ends_when_its_input_does(monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 30)
    child = Child(python("import sys; sys.stdin.read(); sys.stderr.write('bye')"), "c", os.environ)
    await child.stop()
    assert child.ending() == "exited with status 0", "a signal would have ended it otherwise"
    assert child.said.tail() == "bye"


async def test_a_child_that_ignores_its_input_gets_a_signal(monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 0.05)
    monkeypatch.setattr("upstreams.transports.stdio.process.TERM_GRACE_S", 60)
    child = Child(python("import signal; signal.pause()"), "c", os.environ)
    await child.stop()
    assert child.ending() == "was killed by SIGTERM"


@pytest.mark.covers("F-P-21")
async def test_a_stubborn_child_is_killed(monkeypatch):
    assert CLOSE_GRACE_S + TERM_GRACE_S + LAST_OUTPUT_S < 6
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 0.05)
    monkeypatch.setattr("upstreams.transports.stdio.process.TERM_GRACE_S", 0.05)
    program = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True)\nwhile True: signal.pause()"
    child = Child(python(program), "c", os.environ)
    assert await child.stdout.receive_some(1) == b"\n"
    with trio.CancelScope() as scope:
        scope.cancel()
        await child.stop()  # whatever happens around it
    assert child.ending() == "was killed by SIGKILL"
    assert not alive(child.pid)


@pytest.mark.covers("M-03")
async def test_a_child_can_finish_what_it_has_to_say(monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.CLOSE_GRACE_S", 30)
    program = "import sys; sys.stdin.read(); sys.stdout.write('x' * 3000000); sys.stderr.write('y' * 300000)"
    child = Child(python(program), "c", os.environ)
    await child.stop()
    assert child.ending() == "exited with status 0"


@pytest.mark.covers("F-P-20", "SEC-52", "I-8")
@pytest.mark.parametrize("setsid", [False, True])
async def test_nothing_that_it_started_is_left(nursery, tmp_path, setsid):
    file = tmp_path / "pid"
    script = {"start": [["fork", str(file), setsid], ["raw", "ready\n"]]}
    child = Child(scripted(script), "c", os.environ)
    assert await child.stdout.receive_some(6) == b"ready\n"
    grandchild = int(file.read_text())
    pidfd = os.pidfd_open(grandchild)
    assert (os.getsid(grandchild) != os.getsid(child.pid)) is setsid
    await child.stop()
    with trio.fail_after(30):  # SIGKILL was sent; how soon it works is the kernel's affair
        await trio.lowlevel.wait_readable(pidfd)
    os.close(pidfd)
    assert not alive(child.pid)


@pytest.mark.covers("F-P-21", "I-8")
async def test_many_stubborn_children_are_ended_at_once():
    """One after the other, they would take minutes."""
    program = "trap '' TERM; echo; while :; do sleep 1; done"
    children = [Child(UpstreamConfig(command="sh", args=("-c", program)), "c", os.environ) for _ in range(50)]
    for child in children:
        assert await child.stdout.receive_some(1) == b"\n"
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for child in children:
                nursery.start_soon(child.stop)
    assert not any(alive(child.pid) for child in children)


async def test_other_processes_live_on():
    bystander = Child(python("import sys; sys.stdin.read()"), "b", os.environ)
    child = Child(python(""), "c", os.environ)
    await child.stop()
    assert alive(bystander.pid)
    await bystander.stop()


@pytest.mark.covers("I-12")
async def test_no_descriptor_is_left():
    with no_descriptor_left():
        for _ in range(3):
            await Child(python(""), "c", os.environ).stop()
        with pytest.raises(UpstreamUnavailable):
            Child(UpstreamConfig(command="no-such-command-anywhere"), "c", os.environ)


# --- stderr -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("M-03", "F-P-23")
async def test_a_child_that_floods_stderr_is_not_held_up(monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.LAST_OUTPUT_S", 30)  # nobody else holds the pipe
    script = {"start": [["stderr", "x" * 1000, 3000], ["stderr", "\nlast words\n"], ["exit", 4]]}
    child = Child(scripted(script), "c", os.environ)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.drain_stderr)
            await child.watch()
            nursery.cancel_scope.cancel()
    await child.stop()
    assert child.ending() == "exited with status 4"
    assert child.said.tail(1) == "last words"


SHORT_LINES = """if True:
    import os
    flood = b"a\\n" * (1 << 19)
    for _ in range(16):
        os.write(2, flood)
    os.write(2, b"last words\\n")
"""


@pytest.mark.covers("M-03", "F-P-23", "F-P-14", "I-3")
async def test_short_lines_are_read_in_turns_and_the_child_is_not_held_up(caplog, monkeypatch):
    monkeypatch.setattr("upstreams.transports.stdio.process.LAST_OUTPUT_S", 30)  # nobody else holds the pipe
    caplog.set_level("INFO")
    steps = []
    records = 0
    feed, tell = StderrLog.feed, StderrLog.log_lines

    def fed(said, data):
        steps.append(len(data))
        feed(said, data)

    def told(said, now):
        nonlocal records
        before = len(caplog.records)
        more = tell(said, now)
        records = max(records, len(caplog.records) - before)
        return more

    monkeypatch.setattr(StderrLog, "feed", fed)
    monkeypatch.setattr(StderrLog, "log_lines", told)
    child = Child(python(SHORT_LINES), "c", os.environ)
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.drain_stderr)
            nursery.start_soon(others)
            await child.watch()
            nursery.cancel_scope.cancel()
    await child.stop()
    assert child.ending() == "exited with status 0"
    assert child.said.tail(2) == "a\nlast words"
    assert sum(steps) == (16 << 20) + len("last words\n"), "all of it was read"
    assert max(steps) <= STDERR_READ_BYTES
    assert records <= TURN + 1, "with what is said of dropped ones"
    assert turns >= len(steps)
    assert TURN < len(caplog.records) < 16 << 10, "of eight million lines"
