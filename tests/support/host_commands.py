"""Runs `hubd` in a home directory with every host: its output for people and programs, and the files after it."""

import json

from tests.support import host_homes
from tests.support.commands import run_hubd
from tests.support.host_homes import HOMES
from tests.support.processes import own_directories


def home(tmp_path):
    """A home directory with every host; the environment of commands there."""
    env = own_directories(tmp_path) | {"HOME": str(tmp_path / "me"), "PATH": "/usr/bin:/bin"}
    env["XDG_CONFIG_HOME"] = str(tmp_path / "me" / ".config")
    host_homes.write(tmp_path / "me")
    return tmp_path / "me", env


def hubd(home, *arguments, code=0):
    """The whole output of a command."""
    done = _run(home, arguments, code)
    return done.stdout + done.stderr


def told(home, *arguments, code=0):
    """The one object that a command prints."""
    done = _run(home, [*arguments, "--json"], code)
    assert bool(done.stderr) == bool(code)
    return json.loads(done.stdout)


def _run(home, arguments, code):
    directory, env = home
    done = run_hubd(map(str, arguments), env, cwd=directory)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def contents(home):
    """The contents of the files of all hosts."""
    return {id: (home[0] / kept.path).read_bytes() for id, kept in HOMES.items()}
