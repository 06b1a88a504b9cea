"""A hub that tells on SIGUSR2 which of some libraries it has imported.

python imported_hub.py ARGS      the arguments of `hubd serve`
"""

import signal
import sys
from types import FrameType

from hub.cli.main import main

LIBRARIES = frozenset({"httpx", "httpcore", "certifi", "joserfc"})


def tell(number: int, frame: FrameType | None) -> None:
    sys.stdout.write(f"imported: {' '.join(sorted(LIBRARIES & set(sys.modules)))}.\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, tell)
    sys.exit(main(["serve", *sys.argv[1:]]))
