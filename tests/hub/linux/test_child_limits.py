"""Hardening: private files, no core file, closed memory; and as many descriptors as the hub may have."""

import json
import subprocess
import sys

import pytest

from hub.linux.child_limits import OOM_SCORE, limit_child, limits_in_shell

PRIVATE = """if True:
    import os, sys
    from hub.linux.harden_hub import harden
    harden()
    import resource
    os.close(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o666))
    owner = os.stat("/proc/self/environ").st_uid
    print(owner, resource.getrlimit(resource.RLIMIT_CORE), flush=True)
    import ctypes
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
"""


@pytest.mark.covers("SEC-52", "I-9")
@pytest.mark.parametrize("open_to_debuggers", [False, True])
def test_the_hub_keeps_to_itself(tmp_path, open_to_debuggers):
    argv = [sys.executable, "-I", "-c", PRIVATE, str(tmp_path / "file")]
    env = {"HUBD_DUMPABLE": "1"} if open_to_debuggers else {}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=True)
    rest, dumpable = done.stdout.splitlines()
    assert rest.endswith("(0, 0)")
    assert dumpable == str(int(open_to_debuggers))
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


TAKING = """if True:
    import json, resource
    from hub.linux.harden_hub import raise_fd_limit
    raise_fd_limit()
    from hub.linux.child_limits import GIVEN_DESCRIPTORS
    print(json.dumps([*resource.getrlimit(resource.RLIMIT_NOFILE), GIVEN_DESCRIPTORS]))
"""


@pytest.mark.covers("F-D-07")
@pytest.mark.parametrize(("limits", "taken"), [("-Hn 300 -Sn 100", [300, 300, 100]), ("-Hn 200 -Sn 200", [200] * 3)])
def test_the_hub_takes_the_descriptors_it_may_have_and_its_children_get_what_it_was_given(limits, taken):
    hard, soft = limits.split(" -S")
    script = f'ulimit -S{soft} && ulimit {hard} && exec {sys.executable} -I -c "$1"'
    done = subprocess.run(["sh", "-c", script, "sh", TAKING], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout) == taken


LIMITED = """if True:
    import json, resource
    from pathlib import Path
    each = [resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("CORE", "NOFILE")]
    print(json.dumps([*each, int(Path("/proc/self/oom_score_adj").read_text())]))
"""


@pytest.mark.covers("F-D-08", "BOX-14")
def test_a_shell_sets_the_same_limits_for_itself_and_what_it_starts():
    script = f'{limits_in_shell()}; (exec {sys.executable} -I -c "$1")'
    done = subprocess.run(["sh", "-c", script, "sh", LIMITED], capture_output=True, text=True, timeout=30, check=True)
    with subprocess.Popen([sys.executable, "-I", "-c", f"input()\n{LIMITED}"], stdin=-1, stdout=-1, text=True) as child:
        limit_child(child.pid)
        outside, _ = child.communicate("\n")
    assert done.stderr == ""
    assert json.loads(done.stdout) == json.loads(outside)
    assert json.loads(outside)[2] >= OOM_SCORE
