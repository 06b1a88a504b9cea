"""Sandboxes in tests: Debian's bubblewrap, which `make deps` unpacks, and a machine of one's own around it."""

import os
from pathlib import Path

from tests.support.debian import program
from upstreams.transports.stdio.sandbox.enclose import Sandboxes


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
        self.found = program("bwrap")
        monkeypatch.setenv("PATH", f"{self.found.path.parent}:{os.environ['PATH']}")
        if libraries := self.found.env.get("LD_LIBRARY_PATH"):
            monkeypatch.setenv("LD_LIBRARY_PATH", libraries)

    def sandboxes(self, loaded=lambda: None) -> Sandboxes:
        """Those of a hub on this machine."""
        return Sandboxes(loaded, os.environ)
