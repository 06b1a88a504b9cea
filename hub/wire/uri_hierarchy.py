"""Hierarchy of resources by their URIs: the parents of a URI by its path."""

from collections.abc import Iterator
from typing import Final

MAX_URI_CHARS: Final = 2048
"""Length of a parent's URI; nothing longer is subscribed to."""
MAX_DEPTH: Final = 64
"""Levels up to which parents are sought."""
SEPARATORS: Final = "/?#"


def parents(uri: str) -> Iterator[str]:
    """The URIs of which `uri` is a part by its path, longest first."""
    end = min(len(uri), MAX_URI_CHARS + 1)
    for _ in range(MAX_DEPTH):
        end = max(uri.rfind(separator, 0, end) for separator in SEPARATORS)
        if end < 1:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        yield uri[:end]


def level_count(uri: str) -> int:
    """The number of levels above `uri`; each level is one parent or two."""
    return sum(map(uri.count, SEPARATORS))
