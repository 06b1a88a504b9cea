"""Checks of other names that a configuration gives to the tools of an upstream. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from config.errors import quoted
from config.loading.safe_reading import Problem
from config.names import RESERVED
from config.settings import UpstreamConfig

NEW_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""The form of a name that the configuration gives to a tool."""
MAX_QUOTED: Final = 80
"""Characters of a name that a problem shows."""
ID_ROOM: Final = 18
"""Characters of a visible name that a server id leaves (`hub.catalog.names`)."""


def problems_of_renames(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of `rename` that are seen in one upstream alone."""
    taken: dict[str, str] = {}
    for own, new in upstream.rename.items():
        keys, name = ("rename", own), quoted(new[:MAX_QUOTED])
        if not NEW_NAME.fullmatch(new):
            yield Problem(keys, f'{name} cannot name a tool: a letter, then letters, digits, "_" and "-"')
        elif new.startswith(f"{RESERVED}__"):
            yield Problem(
                keys, f'{name} begins with "{RESERVED}__", as tools of the hub itself do; choose another name'
            )
        elif (other := taken.setdefault(new, own)) != own:
            text = f"{name} is the new name of {quoted(other[:MAX_QUOTED])} already; choose another name"
            yield Problem(keys, text)


def problems_of_new_names(upstreams: Mapping[str, UpstreamConfig], budget: int) -> Iterator[tuple[str, Problem]]:
    """Problems of `rename` beside what all upstreams are called, in visible names of `budget` characters; each with the
    name of the upstream."""
    ids = {
        id: name for name, upstream in upstreams.items() for id in (name, upstream.prefix or name, *upstream.aliases)
    }
    for name, upstream in upstreams.items():
        prefix = name if upstream.prefix is None else upstream.prefix
        room = budget if prefix == "" else budget - min(len(prefix), budget - ID_ROOM) - len("__")
        for own, new in upstream.rename.items():
            keys, visible = ("rename", own), quoted(new[:MAX_QUOTED])
            if len(new) > room:
                text = f"{visible} has {len(new)} characters, and the visible name has room for {room} (name_budget)"
                yield name, Problem(keys, f"{text}; choose a shorter name")
            elif prefix == "" and (owner := ids.get(new.partition("__")[0], name)) != name and "__" in new:
                text = f'{visible} is a name that tools of "{owner}" have, since this upstream has no prefix'
                yield name, Problem(keys, f"{text}; choose another name")
