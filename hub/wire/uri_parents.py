"""Which resources are parts of others, or the same in another spelling, as far as their URIs say so (N-11)."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

MAX_URI_CHARS: Final = 2048
"""Of what is watched; nothing longer is a whole."""
MAX_DEPTH: Final = 64
"""How many levels up a whole is looked for."""
_SEPARATORS: Final = "/?#"
_CHANGEABLE: Final = re.compile(r"[\x00-\x1f\x7f\\]|/\.\.?(?:[/?#]|$)|^ | $")
"""What some libraries take out of a URI, or put something else in its place."""
_PORT: Final = re.compile(r":\d*$")


def parents(uri: str) -> Iterator[str]:
    """What `uri` may be a part of, by its path, the longest first."""
    end = min(len(uri), MAX_URI_CHARS + 1)
    for _ in range(MAX_DEPTH):
        end = max(uri.rfind(separator, 0, end) for separator in _SEPARATORS)
        if end < 1:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        yield uri[:end]


def level_count(uri: str) -> int:
    """How many levels up there are; each is a whole or two."""
    return sum(map(uri.count, _SEPARATORS))


def normalized(uri: str) -> str | None:
    """The same for all spellings that libraries for URIs turn into each other (RFC 3986, 6.2); None: nobody can tell,
    or it is too long for anybody to try.

    A server may speak of a resource as its library has written the URI anew: escaped, in lower case, without a port
    that goes without saying. What is the same here may be different to a server: it is good for suspicions only.
    """
    if len(uri) > MAX_URI_CHARS:
        return None
    text = (unquote(uri) if "%" in uri else uri).casefold()
    if len(text) > MAX_URI_CHARS or _CHANGEABLE.search(text):
        return None
    scheme, colon, rest = text.partition(":")
    bare = rest.lstrip("/")
    if bare == rest:
        return text
    if len(rest) - len(bare) == 2:
        end = min((at for separator in _SEPARATORS if (at := bare.find(separator)) >= 0), default=len(bare))
        if not bare[:end].isascii():
            return None  # a name that may be written in other characters
        bare = _PORT.sub("", bare[:end]) + bare[end:]
    return f"{scheme}{colon}//{bare}".replace("file://localhost/", "file://", 1)
