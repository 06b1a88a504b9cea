"""Sandboxes in tests: Debian's bubblewrap, which `make deps` unpacks, and a machine of one's own around it."""

import os
from functools import cache
from pathlib import Path

import pytest

from tests.support.debian import Program, find, program
from upstreams.transports.stdio.sandbox.enclose import Sandboxes


@cache
def _problem() -> str:
    """The reason why no test can have a sandbox here; "": all can."""
    if (found := find("bwrap")) is None:
        return "bubblewrap is neither in .deps/debian nor installed: make deps"
    sandboxes = Sandboxes(environ={**found.env, "PATH": f"{found.path.parent}:{os.environ['PATH']}"})
    return next(filter(None, map(sandboxes.problem_of, ("shield", "own-home", "offline"))), "")


def use_bubblewrap(monkeypatch) -> Program:
    """Bubblewrap, which a hub finds from now on. Skips the test where there is none, which `tests/check.sh all`
    forbids, and where it cannot work, for lack of user namespaces for instance."""
    if (why := _problem()) and not (os.environ.get("HUBD_REQUIRE_REAL") and find("bwrap") is None):
        pytest.skip(why)
    found = program("bwrap")
    monkeypatch.setenv("PATH", f"{found.path.parent}:{os.environ['PATH']}")
    if libraries := found.env.get("LD_LIBRARY_PATH"):
        monkeypatch.setenv("LD_LIBRARY_PATH", libraries)
    return found


class Machine:
    """A home, the hub's directories in it, and things that servers had better not see."""

    def __init__(self, root: Path, monkeypatch) -> None:
        self.home = root / "home"
        names = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_RUNTIME_DIR": "run"}
        for variable, name in names.items():
            monkeypatch.setenv(variable, str(root / name))
            (root / name).mkdir(mode=0o700)
        self.state, self.config, self.run = (root / each / "hubd" for each in ("state", "config", "run"))
        for each in (self.state, self.config, self.run):
            each.mkdir(mode=0o700)
        (self.state / "token").write_text("token")
        (self.config / "hubd.toml").write_text('[upstreams.x]\ncommand = "true"\n')
        (self.config / "hubd.env").write_text("A=secret\n")
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh/id").write_text("key")
        (self.home / "notes").mkdir()
        self.found = use_bubblewrap(monkeypatch)

    def sandboxes(self, loaded=lambda: None) -> Sandboxes:
        """Those of a hub on this machine."""
        return Sandboxes(loaded, os.environ)
