"""Spellings of a URI, and the one normal form for all of them."""

import re
from typing import Final
from urllib.parse import unquote

from hub.wire.uri_hierarchy import MAX_URI_CHARS, SEPARATORS

_CHANGEABLE: Final = re.compile(r"[\x00-\x1f\x7f\\]|/\.\.?(?:[/?#]|$)|^ | $")
"""Characters and segments that some libraries remove from a URI or replace."""
_PORT: Final = re.compile(r":\d*$")


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
        end = min((at for separator in SEPARATORS if (at := bare.find(separator)) >= 0), default=len(bare))
        if not bare[:end].isascii():
            return None  # a name that may be written in other characters
        bare = _PORT.sub("", bare[:end]) + bare[end:]
    return f"{scheme}{colon}//{bare}".replace("file://localhost/", "file://", 1)
