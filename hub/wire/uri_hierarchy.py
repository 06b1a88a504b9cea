"""Hierarchy of resources by their URIs: the parents of a URI by its path, and one normal form for its spellings."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

MAX_URI_CHARS: Final = 2048
"""Length of a parent's URI; nothing longer is subscribed to."""
MAX_DEPTH: Final = 64
"""Levels up to which parents are sought."""
_SEPARATORS: Final = "/?#"
_CHANGEABLE: Final = re.compile(r"[\x00-\x1f\x7f\\]|/\.\.?(?:[/?#]|$)|^ | $")
"""Characters and segments that some libraries remove from a URI or replace."""
_PORT: Final = re.compile(r":\d*$")


def parents(uri: str) -> Iterator[str]:
    """The URIs of which `uri` is a part by its path, longest first."""
    end = min(len(uri), MAX_URI_CHARS + 1)
    for _ in range(MAX_DEPTH):
        end = max(uri.rfind(separator, 0, end) for separator in _SEPARATORS)
        if end < 1:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        yield uri[:end]


def level_count(uri: str) -> int:
    """The number of levels above `uri`; each level is one parent or two."""
    return sum(map(uri.count, _SEPARATORS))


def normalize(uri: str) -> str | None:
    """One form for all spellings that URI libraries turn into each other (RFC 3986, 6.2); None: `uri` cannot be
    normalized, or is too long.

    A server may name a resource by a URI that its library has rewritten: escaped, in lower case, without a default
    port. URIs that are equal here may differ to a server, so use this only to suspect that two are the same.
    """
    if len(uri) > MAX_URI_CHARS:
        return None
    text = (unquote(uri) if "%" in uri else uri).casefold()
    if len(text) > MAX_URI_CHARS or _CHANGEABLE.search(text):
        return None
    scheme, colon, rest = text.partition(":")
    if (bare := rest.lstrip("/")) == rest:
        return text
    if len(rest) - len(bare) == 2:
        end = min((at for separator in _SEPARATORS if (at := bare.find(separator)) >= 0), default=len(bare))
        if not bare[:end].isascii():
            return None  # a name that may be written in other characters
        bare = _PORT.sub("", bare[:end]) + bare[end:]
    return f"{scheme}{colon}//{bare}".replace("file://localhost/", "file://", 1)
