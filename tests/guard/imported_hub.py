"""A hub that tells on SIGUSR2 which of some modules it has imported, and which modules its loop had to wait for.

python imported_hub.py ARGS      the arguments of `hubd serve`
"""

import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from hub.cli.main import main

LIBRARIES = frozenset({"httpx", "httpcore", "certifi", "joserfc", "cryptography", "email", "rich", "tomlkit", "yaml"})
ROOMS = frozenset({"hub.fleet", "hub.sign_in", "upstreams.fetch", "upstreams.oauth", "upstreams.transports.http"}) | {
    *("hub.catalog.pipelines.pipeline_tools", "hub.catalog.result_and_resource_tools", "hub.calls.step_exchange"),
    *("hub.routing.pipelines", "hub.routing.large_results", "hub.routing.resource_tools"),
}
"""What only some hubs need."""
LATE = ("hub.sign_in", "upstreams.oauth", "upstreams.fetch", "httpx", "httpcore", "joserfc", "cryptography")
"""What is needed late, if at all."""


class Watch:
    """Sees each import; `waited` are the late modules that were loaded by the loop itself."""

    def __init__(self) -> None:
        self.waited: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """None: others find it."""
        is_late = any(name == each or name.startswith(f"{each}.") for each in LATE)
        if is_late and "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run():
            self.waited.append(name)
        return None


def tell(number: int, frame: FrameType | None) -> None:
    sys.stdout.write(f"imported: {' '.join(sorted((LIBRARIES | ROOMS) & set(sys.modules)))}.\n")
    sys.stdout.write(f"waited for: {' '.join(watch.waited)}.\n")
    sys.stdout.flush()


if __name__ == "__main__":
    watch = Watch()
    sys.meta_path.insert(0, watch)
    signal.signal(signal.SIGUSR2, tell)
    sys.exit(main(["serve", *sys.argv[1:]]))
