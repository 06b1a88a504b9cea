"""The digest of the arguments that a person is asked about. Pure."""

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from msgspec import Raw

from hub.rules.settle_arguments import LARGE_BYTES

_WHOLE: Final = re.compile(r"(-?[0-9]{1,15})(?:\.0+)?")
"""Numbers that every reader takes for the same, with or without a fraction of zeros."""


def digest_of(method: str, arguments: Raw) -> str:
    """The digest of what a person is asked about: that of no other arguments, however like them they are read. The
    order of names does not count, and neither does `1` or `1.0`; of `LARGE_BYTES` and more everything does."""
    data = bytes(arguments)
    if len(data) < LARGE_BYTES:
        numbers: Any = {"parse_int": _exact, "parse_float": _exact}
        with suppress(ValueError, RecursionError):
            data = b"read " + repr(json.loads(data, object_pairs_hook=_sort, **numbers)).encode()
    return sha256(b"%b %b" % (method.encode(), data)).hexdigest()


def _sort(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(dict(pairs).items()))


def _exact(text: str) -> bytes:
    found = text if (whole := _WHOLE.fullmatch(text)) is None else whole[1]
    return b"0" if found == "-0" else found.encode()
