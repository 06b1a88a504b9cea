"""Which resources are parts of others, as far as their URIs say so (N-11)."""

from collections.abc import Iterator
from typing import Final

MAX_URI_CHARS: Final = 2048
"""Of what is watched; nothing longer is a whole."""
MAX_DEPTH: Final = 64
"""How many levels up a whole is looked for."""
_SEPARATORS: Final = "/?#"


def wholes(uri: str) -> Iterator[str]:
    """What `uri` may be a part of, by its path, the longest first."""
    end = min(len(uri), MAX_URI_CHARS + 1)
    for _ in range(MAX_DEPTH):
        end = max(uri.rfind(separator, 0, end) for separator in _SEPARATORS)
        if end < 1:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        yield uri[:end]
