"""A set of tools as the settings `servers` and `tools` of a profile, and back; pure. And what `hubd add` says of
profiles that leave a new server out.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from config.diagnostics import ConfigError
from config.name_globs import ALL, MAX_CHARS, MAX_GLOBS, MAX_WILD, NameChoice, may_choose
from config.profile_settings import Profile
from hub.catalog.visible_names import join_some
from hub.cli.context import Context
from hub.cli.render.words import group
from hub.control.answers import ToolUse
from hub.wire.printable import printable

FEW_LEFT_OUT: Final = 3
"""A server of which at most one tool in so many is left out is named with these exceptions, else tool by tool."""

NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
_ODD: Final = re.compile(r"[\s*?\[!#]")
"""Characters that mean something in a glob, or in a list of names."""


class Choice(Struct, frozen=True):
    """The choice of a profile."""

    servers: tuple[str, ...] = ()
    """As the setting: empty, if all are shown."""
    tools: tuple[str, ...] = ALL

    def settings(self) -> dict[str, Any]:
        """The settings that say so, those that say nothing left out."""
        found: dict[str, Any] = {"servers": list(self.servers)} if self.servers else {}
        return found if self.tools == ALL else found | {"tools": list(self.tools)}


class Away(Struct, frozen=True):
    """A server that is not connected now, or a glob of a profile that matches nothing now."""

    server: str
    """"": it is a glob."""
    start: str
    """The beginning of the names of its tools; "": they have none in common. The whole of a glob."""
    state: str
    is_shown: bool

    @property
    def word(self) -> str:
        """The name in a list to choose from; no tool in it can have this one."""
        return f"{self.start or f'{self.server}:'}*" if self.server else self.start


def tools_of_choice(choice: Choice | Profile, tools: Iterable[ToolUse]) -> list[ToolUse]:
    """The tools that a choice or a profile shows."""
    names = NameChoice(choice.tools)
    return [each for each in tools if each.server in (choice.servers or (each.server,)) and each.name in names]


def leaves_out_only(globs: Sequence[str]) -> bool:
    """True if globs take something away from all there is, or will be."""
    return bool(globs) and all(glob.startswith("!") for glob in globs)


def can_be_named(name: str) -> bool:
    """True if a setting can choose a tool by this name, and a line of a list can tell it: it is no glob, no text of
    several words, and not too long. Servers whose tools have no prefix may call them anything."""
    return 0 < len(name) <= MAX_CHARS and not _ODD.search(name) and printable(name) == name


def choice_of(
    chosen: Collection[str],
    tools: Sequence[ToolUse],
    others: Sequence[str] = (),
    kept: Mapping[str, str] = NOBODY,
    *,
    closed: bool = False,
) -> Choice:
    """The choice that shows the tools whose names are `chosen`, of all `tools`. Tools that cannot be named are shown
    where all others of their server are.

    `others`: servers that are shown for what else they have. `kept`: servers among them that are to show their tools,
    too, as soon as they have some, each with the beginning of the names of these; "": they have none in common.
    `closed`: there are servers that are in neither, and not to be shown."""
    named = group((each.server, each.name) for each in tools if can_be_named(each.name))
    taken = {server: found for server, names in named.items() if (found := [each for each in names if each in chosen])}
    unnamed = dict.fromkeys(each.server for each in tools if each.server not in named)
    starts = tuple(f"{start}*" for start in kept.values() if start)
    if not taken and not kept:
        return Choice((), ())
    if not taken:
        return Choice((*others, *unnamed), starts if all(kept.values()) else ALL)
    is_all = taken.keys() == named.keys() and not closed
    servers = () if is_all else (*taken, *(each for each in (*others, *unnamed) if each not in named))
    rest = [name for server in taken for name in named[server] if name not in chosen]
    if not rest:
        return Choice(servers)
    odd = {each.server for each in tools if not can_be_named(each.name)}
    if odd.isdisjoint(taken) and _are_exceptions(rest, sum(len(named[server]) for server in taken), kept):
        return Choice(servers, tuple(f"!{name}" for name in rest))
    return Choice(servers, (*_globs(taken, named, odd, MAX_WILD - len(starts)), *starts))


def _are_exceptions(rest: Sequence[str], count: int, kept: Mapping[str, str]) -> bool:
    """True if a choice is to name only what it leaves out, of so many, since other servers have to stay."""
    if not kept or len(rest) > MAX_GLOBS:
        return False
    return len(rest) * FEW_LEFT_OUT <= count or not all(kept.values()) or len(kept) > MAX_WILD // 2


def _globs(
    taken: Mapping[str, list[str]], named: Mapping[str, list[str]], odd: Collection[str], most_wild: int
) -> tuple[str, ...]:
    """The names of what is taken; of a server that lacks few, its prefix and these."""
    globs: list[str] = []
    left_out: list[str] = []
    wild = 0
    for server, names in taken.items():
        rest = [name for name in named[server] if name not in names]
        prefix = "" if server in odd and rest else _own_prefix(server, named)
        if prefix and wild < most_wild and len(rest) * FEW_LEFT_OUT <= len(named[server]):
            globs.append(f"{prefix}*")
            left_out += [f"!{name}" for name in rest]
            wild += 1
        else:
            globs += names
    return (*globs, *left_out)


def with_unknown(choice: Choice, before: Choice, servers: Collection[str], tools: Iterable[ToolUse]) -> Choice:
    """`choice`, and what the profile said `before` of servers and tools that are not here now, those of a project for
    instance. `servers`: those that are here."""
    elsewhere = [each for each in before.servers if each not in servers and each not in choice.servers]
    names = [each.name for each in tools]
    globs = [glob for glob in before.tools if not is_known(glob.removeprefix("!"), names) and glob not in choice.tools]
    if choice.tools == ALL:  # beside globs that add something, it would be all no more
        said = tuple(glob for glob in globs if glob.startswith("!")) or ALL
    elif not choice.tools:  # globs that only take away would leave the rest
        said = tuple(glob for glob in globs if not glob.startswith("!"))
    else:
        said = (*choice.tools, *globs)
    return Choice((*choice.servers, *elsewhere) if choice.servers else (), said)


def is_known(glob: str, names: Iterable[str]) -> bool:
    """True if a glob matches one of the names."""
    one = NameChoice((glob,))
    return any(name in one for name in names)


def _own_prefix(server: str, by_server: Mapping[str, list[str]]) -> str:
    """The beginning, as in `files__`, that all tools of a server have and no others; "": there is none."""
    prefix = by_server[server][0].partition("__")[0] + "__"
    own = all(name.startswith(prefix) for name in by_server[server])
    others = (name for other, names in by_server.items() if other != server for name in names)
    return prefix if own and not any(name.startswith(prefix) for name in others) else ""


MAX_SAID: Final = 8
"""Profiles that are named; of further ones only their number."""


def say_left_out(options: Context, name: str, values: Mapping[str, Any]) -> None:
    """Note which profiles do not show the new server `name`, and what to change. `values`: its settings."""
    try:
        profiles = options.loaded.config.profiles
    except ConfigError:  # which was said when it was changed
        return
    prefix = values.get("prefix", name)
    lacking = profiles_without(profiles, name, prefix if isinstance(prefix, str) else name)
    for remedy, found in group((remedy, profile) for profile, remedy in lacking).items():
        noun, whose = ("profile", "its") if len(found) == 1 else ("profiles", "their")
        told = join_some(found, MAX_SAID)
        text = f"hosts of the {noun} {told} are not shown {name}: add {remedy.format(whose=whose)}, or choose with"
        options.output.note(f"{text} `hubd tools --pick {found[0]}`")


def profiles_without(profiles: Mapping[str, Profile], name: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The profiles that cannot show a tool of the server `name`, each with what to add to `{whose}` settings. Pure.
    `prefix`: what the visible names of its tools begin with; "": nothing, so that nobody knows them yet."""
    for each, profile in profiles.items():
        wanted = []
        if profile.servers and name not in profile.servers:
            wanted.append(f'"{name}" to {{whose}} `servers`')
        if prefix and not may_choose(profile.tools, f"{prefix}__"):
            wanted.append(f'"{prefix}__*" to {{whose}} `tools`')
        if wanted:
            yield each, " and ".join(wanted)
