"""Root: whether the hub, and with it every server that it starts, has more rights than it needs.

That is said, not refused: in a container root is often the only user, and has few rights; on machines for development
people know what they do.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Final

CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""Files that exist in containers only."""
CONTAINER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
ROOT: Final = "the hub runs as root, and so does every server it starts"
ADVICE: Final = "run hubd as a user, or `hubd service install --system` for a service with a user of its own"


def is_root(
    uid: int | None = None, marks: Iterable[str] = CONTAINER_MARKS, environ: Mapping[str, str] = os.environ
) -> bool:
    """True if this process, or one of `uid`, has the rights of root outside of a container."""
    if (os.geteuid() if uid is None else uid) != 0:
        return False
    return CONTAINER_VARIABLE not in environ and not any(map(os.path.exists, marks))
