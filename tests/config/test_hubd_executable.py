"""The path of hubd's own command, with real programs: started by their path, by PATH, and where a runner keeps them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.hubd_executable import passing_place
from tests.support.processes import HUBD, ROOT

ASK = """#!{python} -I
import sys
sys.path.insert(0, {root!r})
from config import hubd_executable
print(hubd_executable.command_path(), hubd_executable.lasting_command(), *hubd_executable.daemon_command(), sep="\\n")
"""


def place_program(path: Path) -> Path:
    """A `hubd` that says how it would be started again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ASK.format(python=sys.executable, root=str(ROOT)))
    path.chmod(0o755)
    return path


def said(path: Path | str, *, home: Path, programs: str = "", **environ: str) -> list[str]:
    env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), **environ}
    return subprocess.run([path], env=env, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()


def test_a_link_on_path_outlives_updates(tmp_path):
    own = place_program(tmp_path / "tools/v1/bin/hubd")
    (tmp_path / "bin").mkdir()
    (link := tmp_path / "bin/hubd").symlink_to(own)
    command, lasting, *daemon = said(own, home=tmp_path, programs=str(link.parent))
    assert command == lasting == str(link)
    assert daemon == [sys.executable, "-I", str(link), "serve", "--detached"]


def test_another_hubd_on_path_is_not_this_program(tmp_path):
    own, other = place_program(tmp_path / "own/hubd"), place_program(tmp_path / "other/hubd")
    command, lasting, *daemon = said(own, home=tmp_path, programs=str(other.parent))
    assert command == lasting == str(own)
    assert str(other) not in daemon


def test_a_relative_directory_on_path_is_passed_over(tmp_path):
    own = place_program(tmp_path / "own/hubd")
    env = {"PATH": "own:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([own], env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines()[0] == str(own)


@pytest.mark.parametrize(
    "cache",
    [
        "cache/uv/archive-v0/x1/bin",
        "cache/uv/environments-v2/x1/bin",
        "share/pipx/.cache/x1/bin",
        ".cache/pipx/x1/bin",
        "somewhere/x1/bin",
    ],
)
def test_what_a_runner_keeps_for_one_run_is_never_written_down(tmp_path, cache):
    own = place_program(tmp_path / cache / "hubd")
    environ = {"UV_CACHE_DIR": str(tmp_path / "somewhere")}
    command, lasting, *daemon = said(own, home=tmp_path, **environ)
    assert command == str(own)
    assert lasting == "None"
    assert daemon == [sys.executable, "-I", str(own), "serve", "--detached"], "there is no other"
    installed = place_program(tmp_path / ".local/bin/hubd")
    _, lasting, *daemon = said(own, home=tmp_path, **environ)
    assert lasting == str(installed)
    assert daemon == [str(installed), "serve", "--detached"]


def test_a_link_into_a_cache_does_not_stay(tmp_path):
    own = place_program(tmp_path / "uv/archive-v0/x1/bin/hubd")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hubd").symlink_to(own)
    _, lasting, *_ = said(own, home=tmp_path, programs=str(tmp_path / "bin"))
    assert lasting == "None"


@pytest.mark.parametrize("path", ["/usr/bin/hubd", "/home/u/.local/share/uv/tools/mcp-hubd/bin/hubd", str(HUBD), ""])
def test_installed_places_stay(path):
    assert passing_place(path) is None


def test_a_shim_of_one_run_goes_on_as_the_installed_one(tmp_path):
    """A Python environment in uv's cache is played by a link that `sys.prefix` leads through."""
    environment = tmp_path / "uv/archive-v0/x1"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
    (installed := tmp_path / ".local/bin/hubd").parent.mkdir(parents=True)
    installed.write_text('#!/bin/sh\necho "installed: $*"\n')
    installed.chmod(0o755)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from hub.shim.main import run; run(['--host', 'x'])"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HUBD_RUNTIME_DIR": str(tmp_path / "run")}
    python = environment / "bin/python"
    done = subprocess.run([python, "-I", "-c", code], env=env, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "installed: connect --host x\n"
    assert os.path.exists(python)
    installed.write_text(f'#!/bin/sh\necho again\nexec {python} -I -c "{code}"\n')
    env["XDG_STATE_HOME"] = str(tmp_path)
    done = subprocess.run(
        [python, "-I", "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False, input=""
    )
    assert done.stdout == "again\n", "a script that runs the shim of the cache is asked once"
    stop = {**os.environ, **env, "PATH": str(HUBD.parent)}
    subprocess.run([HUBD, "stop"], env=stop, capture_output=True, check=False)
