"""The id of a message of which only both ends are at hand: it was too large to be kept. Pure."""

import re
from typing import Final

_ID: Final = rb'"id"\s*:\s*([0-9]{1,15}|"[^"\\]{1,200}")'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"'
_FRONT: Final = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b\s*[,}]" % (_VERSION, _ID))
_BACK: Final = re.compile(rb",\s*%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_ID, _VERSION))


def id_at_edges(begin: bytes, end: bytes) -> int | str | None:
    """The id of a message that begins and ends so; None: it is not where SDKs write it."""
    found = _FRONT.match(begin) or _BACK.search(end)
    if found is None:
        return None
    text = found[1]
    return text[1:-1].decode(errors="replace") if text.startswith(b'"') else int(text)
