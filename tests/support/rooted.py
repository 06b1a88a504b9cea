"""A real SDK host that has roots: the process of tests/real/hosts/rooted.py, told what to do."""

import json
from typing import Any

from tests.support.processes import Process


class Rooted:
    """A host on a real SDK, told what to do."""

    def __init__(self, process: Process) -> None:
        self._process = process
        process.wait_for("ready")

    def tell(self, *words: str) -> Any:
        self._process.write(" ".join(words).encode() + b"\n")
        return json.loads(self._process.wait_for(".+")[0])

    def servers(self) -> set[str]:
        return {name.partition("__")[0] for name in self.tell("tools")}

    def wait_for_servers(self, *names: str) -> None:
        while self.servers() != set(names):
            self.tell("changed")
