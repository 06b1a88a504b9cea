"""Checks of the names of servers and tools among all upstreams: prefixes, aliases, `rename`."""

from collections.abc import Iterator, Mapping
from typing import Final

from config.diagnostics import Keys, Problem, quote_toml
from config.loading.checks.profiles import NEW_NAME
from config.server_names import RESERVED, RULE, fold, is_reserved, is_server_id, is_usable, suggest_id
from config.settings import UpstreamConfig

MAX_QUOTED_NAME: Final = 80
"""Characters of a name that a problem shows."""
ID_ROOM: Final = 18
"""Characters of a visible name that a server id leaves (`hub.catalog.visible_names`)."""


def problems_of_renames(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of `rename` that are seen in one upstream alone."""
    taken: dict[str, str] = {}
    for own, new in upstream.rename.items():
        keys, name = ("rename", own), quote_toml(new[:MAX_QUOTED_NAME])
        if not NEW_NAME.fullmatch(new):
            yield Problem(keys, f'{name} cannot name a tool: a letter, then letters, digits, "_" and "-"')
        elif new.startswith(f"{RESERVED}__"):
            text = f'{name} begins with "{RESERVED}__", as tools of the hub itself do; choose another name'
            yield Problem(keys, text)
        elif (other := taken.setdefault(new, own)) != own:
            text = f"{name} is the new name of {quote_toml(other[:MAX_QUOTED_NAME])} already; choose another name"
            yield Problem(keys, text)


def _problems_of_new_names(upstreams: Mapping[str, UpstreamConfig], budget: int) -> Iterator[tuple[str, Problem]]:
    """Problems of `rename` beside what all upstreams are called."""
    ids = {id: name for name, each in upstreams.items() for id in (name, each.prefix or name, *each.aliases)}
    for name, upstream in upstreams.items():
        prefix = name if upstream.prefix is None else upstream.prefix
        room = budget if prefix == "" else budget - min(len(prefix), budget - ID_ROOM) - len("__")
        for own, new in upstream.rename.items():
            keys, visible = ("rename", own), quote_toml(new[:MAX_QUOTED_NAME])
            if len(new) > room:
                text = f"{visible} has {len(new)} characters, and the visible name has room for {room} (name_budget)"
                yield name, Problem(keys, f"{text}; choose a shorter name")
            elif prefix == "" and (owner := ids.get(new.partition("__")[0], name)) != name and "__" in new:
                text = f'{visible} is a name that tools of "{owner}" have, since this upstream has no prefix'
                yield name, Problem(keys, f"{text}; choose another name")


def problems_of_names(upstreams: Mapping[str, UpstreamConfig], budget: int) -> Iterator[tuple[str, Problem]]:
    """Problems of names, prefixes, aliases and renamed tools among all upstreams, each with the name of the upstream.
    Visible names have `budget` characters; an upstream with a name of the hub's own is left out."""
    taken: dict[str, str] = {}
    bare: str | None = None
    for name, upstream in upstreams.items():
        for _, id, where in _claims({name: upstream}):
            if not is_usable(id):
                text = f'"{id}" cannot name a server: use {RULE}; write for instance "{suggest_id(id)}"'
                yield name, Problem(where, text)
            if (other := taken.setdefault(fold(id), name)) != name:
                text = f'"{id}" is taken: it equals, or differs only in case or dashes from, a name of "{other}"'
                yield name, Problem(where, text)
        if upstream.prefix == "":
            if bare is not None:
                text = f'only one upstream can have bare names, and "{bare}" has them; leave prefix out here'
                yield name, Problem("prefix", text)
            bare = bare or name
    yield from _problems_of_new_names(upstreams, budget)
    for name, id, where in _claims(upstreams):
        if is_reserved(id):
            text = f'"{id}" is the name of the hub itself, so this server is left out; give it another name'
            yield name, Problem(where, text, unresolved=name)


def warnings_of_names(upstreams: Mapping[str, UpstreamConfig]) -> Iterator[tuple[str, Problem]]:
    """Warnings about names that work and could be better, each with the name of the upstream."""
    for name, id, where in _claims(upstreams):
        if not is_server_id(id) and is_usable(id):
            text = f'"{id}" works, but some hosts need shorter or plainer names: use {RULE}'
            yield name, Problem(where, f'{text}, such as "{suggest_id(id)}"')


def _claims(upstreams: Mapping[str, UpstreamConfig]) -> Iterator[tuple[str, str, Keys]]:
    """The names that each upstream is known by, and the setting that says so."""
    for name, upstream in upstreams.items():
        yield name, name, ()
        yield from ((name, alias, ("aliases",)) for alias in upstream.aliases)
        if upstream.prefix and upstream.prefix != name:
            yield name, upstream.prefix, ("prefix",)
