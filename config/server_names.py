"""Server ids: the names that an upstream may have. Pure.

The rule is lower-case words joined by single dashes, at most 32 characters: short enough for hosts' limits, legal in a
URI scheme, and free of underscores, so that `<server>__<tool>` splits in one way only. Names that break it without
making that ambiguous are usable, since hub.catalog.visible_names makes a URI-safe id of them; they deserve a warning.
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from itertools import chain, count
from typing import Final
from urllib.parse import urlsplit

MAX_ID: Final = 32
FORMER_MAX_ID: Final = 16
"""The longest id that earlier versions made of a host's name."""
RULE: Final = f"lower-case words joined by single dashes, at most {MAX_ID} characters"
RESERVED: Final = "hub"
"""The hub's own name, and that of its entry in hosts; of no server."""
SERVER_ID: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""The form of a server id, which may stand in a URI scheme; how long it may be is for the caller to say."""
_USUAL: Final = frozenset({"mcp", "api", "www", "app", "server", "remote", "sse"})
"""Parts of a host's name that say nothing of whose it is."""
_SHARED: Final = frozenset({"workers", "vercel", "onrender", "fly", "netlify", "herokuapp", "pages", "railway"})
"""Domains below which everybody may have one."""
_SECOND_LEVEL: Final = frozenset({"co", "com", "org", "net", "ac", "gov"})
ACCOUNT_MARK: Final = ":"
"""It stands between the name of a server and that of an account there, and in neither."""
NO_ACCOUNTS: Final = ("shared", "each")
"""Words that say whose account is used, and so name none."""
_USABLE = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?!_|$))*")


def is_server_id(name: str) -> bool:
    """True if `name` is a server id as it should be."""
    return len(name) <= MAX_ID and SERVER_ID.fullmatch(name) is not None


def is_usable(name: str) -> bool:
    """True if tools can be named after `name` without ambiguity."""
    return len(name) <= MAX_ID and _USABLE.fullmatch(name) is not None


def account_id(server: str, account: str) -> str:
    """The name of an account at a server."""
    return f"{server}{ACCOUNT_MARK}{account}"


def server_of(name: str) -> str:
    """The server of an account, or the server of that name itself."""
    return name.partition(ACCOUNT_MARK)[0]


def fold(name: str) -> str:
    """`name` without case and kinds of dashes: names that are equal then are too much alike."""
    return name.lower().replace("-", "_")


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


def id_of_url(url: str, taken: Iterable[str] = ()) -> str:
    """A server id for what is at `url`, by whose it is: `https://mcp.linear.app/mcp` -> "linear". One of `taken` gets a
    number.
    Raises: ValueError, if it is no URL with a host."""
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port
    labels = [label for label in (host or "").split(".") if label]
    if host is None or not labels:
        raise ValueError("there is no host in it")
    if len(labels) < 2 or ":" in host or labels[-1].isdecimal():
        labels = ["local" if labels == ["localhost"] or ":" in host or labels[-1].isdecimal() else labels[0]]
        name = f"{labels[0]}-{port}" if port else labels[0]
    else:
        above = labels[:-2] if len(labels) > 2 and labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2 else labels[:-1]
        if len(above) > 1 and above[-1] in _SHARED:
            above = above[:-1]
        name = next((label for label in reversed(above) if label not in _USUAL), above[-1])
    return free_id(suggest_id(name), taken)


def free_id(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or with a number, so that it is none of `taken`."""
    others = {each.lower() for each in taken} | {RESERVED}
    numbered = (f"{wanted[: MAX_ID - 5]}-{number}" for number in count(2))
    return next(each for each in chain([wanted], numbered) if each not in others)


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
