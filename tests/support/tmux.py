"""A terminal that is seen as a person sees it: Debian's tmux, which draws what a program writes."""

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.debian import program
from tests.support.restarts import TICK

LOOKS = 1200
LOOK_S = 0.05


class Tmux:
    """One program in a window of `columns` times `rows`; its server ends with the block."""

    def __init__(
        self, directory: Path, argv: Sequence[str | Path], env: Mapping[str, str], *, columns: int = 80, rows: int = 24
    ) -> None:
        self._found = program("tmux")
        self._socket = directory / "tmux.sock"
        words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "TERM=screen", *map(str, argv)]
        command = f"{shlex.join(words)}; echo ended with $?; exec sleep 1000"
        self._do("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def __enter__(self) -> "Tmux":
        return self

    def __exit__(self, *_: object) -> None:
        self._do("kill-server")

    def _do(self, *words: str) -> str:
        argv = [str(self._found.path), "-S", str(self._socket), *words]
        env = {**self._found.env, "LC_ALL": "C.UTF-8"}
        return subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=60).stdout

    def press(self, *keys: str) -> None:
        """Press keys, as tmux names them."""
        self._do("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._do("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> list[str]:
        """The lines of the screen."""
        return self._do("capture-pane", "-p").split("\n")

    def see(self, pattern: str, *, gone: str = "") -> list[str]:
        """Look until the screen shows `pattern`, and nothing like `gone`; its lines."""
        for _ in range(LOOKS):
            lines = self.screen()
            text = "\n".join(lines)
            if re.search(pattern, text, re.M) and not (gone and re.search(gone, text, re.M)):
                return lines
            TICK.wait(LOOK_S)
        raise AssertionError(f"the screen does not show {pattern}:\n{text}")
