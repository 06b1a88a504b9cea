"""Programs that are run to their end: what they print, and what they may not do."""

import contextlib
import os
import select
import signal
import sys
import threading

import pytest

from config.secrets.run_child import ChildFailed, run_child


def python(code, **limits):
    limits = {"within_s": 20, "limit_bytes": 1 << 16} | limits
    return run_child([sys.executable, "-I", "-c", code], **limits)


def test_both_outputs_and_the_status_come_back():
    done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert "out" not in repr(done)


def test_input_is_passed_whole_and_without_it_there_is_none():
    code = "import sys; sys.stdout.write(str(len(sys.stdin.read())))"
    assert python(code, input=b"x" * 300_000).stdout == b"300000"
    assert python(code).stdout == b"0"


def test_a_program_that_reads_nothing_ends_all_the_same():
    assert python("print(1)", input=b"x" * 300_000).stdout == b"1\n"


def test_a_flood_is_cut_off():
    with pytest.raises(ChildFailed, match="printed more than 64 KB"):
        python("import sys\nwhile True: sys.stdout.write('secret' * 1000)")


def test_a_flood_on_stderr_is_kept_to_its_end():
    done = python("import sys; sys.stderr.write('a' * 1_000_000 + 'z')")
    assert len(done.stderr) == 4096
    assert done.stderr.endswith(b"az")


def test_one_that_hangs_is_killed_with_all_of_its_group(tmp_path):
    pids = tmp_path / "pids"
    code = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'])
open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')
time.sleep(600)
"""
    for within_s in (2, 30):  # two programs start meanwhile
        with pytest.raises(ChildFailed, match=f"did not end within {within_s} seconds"):
            python(code, within_s=within_s)
        if pids.exists() and len(pids.read_text().split()) == 2:
            break
    parent, child = map(int, pids.read_text().split())
    with pytest.raises(ChildProcessError):
        os.waitpid(parent, os.WNOHANG)  # was reaped
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(child)
        assert select.select([pidfd], [], [], 20)[0]  # it ends
        os.close(pidfd)


def test_one_that_cannot_be_killed_is_left_alone_and_reaped_later(monkeypatch, tmp_path):
    def refuse(group, number):
        raise PermissionError

    pid_file = tmp_path / "pid"
    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(30)"
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", refuse)
        with pytest.raises(ChildFailed, match="did not end within 5 seconds"):
            python(code, within_s=5)
    pid = int(pid_file.read_text())
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None, "nobody waits for it"
    reaper = next(thread for thread in threading.enumerate() if thread.name == f"reaper of {pid}")
    os.kill(pid, signal.SIGKILL)
    reaper.join(20)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # was reaped


def test_what_is_left_in_the_background_is_not_waited_for():
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'], start_new_session=True)
print('done')
"""
    assert python(code).stdout == b"done\n"


def test_there_is_no_shell_and_no_terminal_to_read_from():
    assert run_child(["echo", "$HOME; id"], within_s=20, limit_bytes=100).stdout == b"$HOME; id\n"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["/nowhere/at-all"], "was not found"),
        (["/"], "cannot be started: Permission denied"),
        (["true", "\0"], "cannot be started"),
    ],
)
def test_one_that_cannot_be_started_says_why(argv, why):
    with pytest.raises(ChildFailed, match=why):
        run_child(argv, within_s=20, limit_bytes=100)


def test_a_killed_one_has_the_number_of_the_signal():
    assert python("import os; os.kill(os.getpid(), 9)").status == -signal.SIGKILL
