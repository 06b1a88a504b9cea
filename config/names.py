"""Server ids: the names that an upstream may have. Pure.

The rule is lower-case words joined by single dashes, at most 32 characters: short enough for hosts' limits, legal in a
URI scheme, and free of underscores, so that `<server>__<tool>` splits in one way only. Names that break it without
making that ambiguous are usable, since hub.catalog.names makes a URI-safe id of them; they deserve a warning.
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

MAX_ID: Final = 32
FORMER_MAX_ID: Final = 16
"""The longest id that earlier versions made of a host's name."""
RULE: Final = f"lower-case words joined by single dashes, at most {MAX_ID} characters"
RESERVED: Final = "hub"
"""The hub's own name, and that of its entry in hosts; of no server."""
SERVER_ID: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""The form of a server id, which may stand in a URI scheme; how long it may be is for the caller to say."""
_USABLE = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?!_|$))*")


def is_server_id(name: str) -> bool:
    """True if `name` is a server id as it should be."""
    return len(name) <= MAX_ID and SERVER_ID.fullmatch(name) is not None


def is_usable(name: str) -> bool:
    """True if tools can be named after `name` without ambiguity."""
    return len(name) <= MAX_ID and _USABLE.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """True if `name` is the hub's own, in any spelling."""
    return name.lower() == RESERVED


def suggest_id(name: str, length: int = MAX_ID) -> str:
    """A legal server id that resembles `name`; the same for the same name."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not words[:1].isalpha():
        words = f"s{words}"
    return words[:length].rstrip("-")


def short_id(name: str, length: int = MAX_ID) -> str:
    """A legal server id that resembles `name`, of whole words if there can be: "Everything Server" -> "everything".

    For names that are given once and kept: what is written down elsewhere goes by `suggest_id`.
    """
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").split("-")
    if len("-".join(words)) > length:
        words = [word for word in words if word not in ("mcp", "server")] or words
    while len(words) > 1 and len("-".join(words)) > length:
        words.pop()
    return suggest_id("-".join(words))[:length].rstrip("-")


def derive_ids(names: Iterable[str], length: int = MAX_ID) -> dict[str, str]:
    """Name -> legal id, all different even after `-` became `_`. Legal names stay; of others that meet, hashes tell."""
    names = list(names)
    ids = {name: name for name in names if is_server_id(name) and len(name) <= length and not is_reserved(name)}
    taken = set(ids.values())
    for name in names:
        if name in ids:
            continue
        id = suggest_id(name, length)
        if id in taken or is_reserved(id):
            id = f"{id[: length - 5].rstrip('-')}-{sha256(name.encode()).hexdigest()[:4]}"
        ids[name] = id
        taken.add(id)
    return {name: ids[name] for name in names}
