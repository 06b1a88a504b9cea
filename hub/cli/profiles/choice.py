"""A set of tools as the settings `servers` and `tools` of a profile, and back. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from config.name_globs import ALL, MAX_WILD, NameChoice
from hub.control.tool_use import ToolUse

FEW_LEFT_OUT: Final = 3
"""A server of which at most one tool in so many is left out is named with these exceptions, else tool by tool."""


class Choice(Struct, frozen=True):
    """The choice of a profile."""

    servers: tuple[str, ...] = ()
    """As the setting: empty, if all are shown."""
    tools: tuple[str, ...] = ALL

    def settings(self) -> dict[str, Any]:
        """The settings that say so, those that say nothing left out."""
        found: dict[str, Any] = {"servers": list(self.servers)} if self.servers else {}
        return found if self.tools == ALL else found | {"tools": list(self.tools)}


def shown_by(choice: Choice, tools: Iterable[ToolUse]) -> list[ToolUse]:
    """The tools that a choice shows."""
    names = NameChoice(choice.tools)
    return [each for each in tools if each.server in (choice.servers or (each.server,)) and each.name in names]


def choice_of(chosen: Collection[str], tools: Sequence[ToolUse], others: Sequence[str] = ()) -> Choice:
    """The choice that shows the tools whose names are `chosen`, of all `tools`. `others`: servers that are shown for
    what else they have."""
    by_server: dict[str, list[str]] = {}
    for each in tools:
        by_server.setdefault(each.server, []).append(each.name)
    taken = {server: [name for name in names if name in chosen] for server, names in by_server.items()}
    taken = {server: names for server, names in taken.items() if names}
    if not taken:
        return Choice((), ())
    servers = () if taken.keys() == by_server.keys() else (*taken, *(each for each in others if each not in by_server))
    if all(len(names) == len(by_server[server]) for server, names in taken.items()):
        return Choice(servers)
    globs: list[str] = []
    left_out: list[str] = []
    wild = 0
    for server, names in taken.items():
        rest = [name for name in by_server[server] if name not in chosen]
        prefix = _own_prefix(server, by_server)
        if prefix and wild < MAX_WILD and len(rest) * FEW_LEFT_OUT <= len(by_server[server]):
            globs.append(f"{prefix}*")
            left_out += [f"!{name}" for name in rest]
            wild += 1
        else:
            globs += names
    return Choice(servers, (*globs, *left_out))


def with_unknown(choice: Choice, before: Choice, servers: Collection[str], tools: Iterable[ToolUse]) -> Choice:
    """`choice`, and what the profile said `before` of servers and tools that are not here now, those of a project for
    instance. `servers`: those that are here."""
    elsewhere = [each for each in before.servers if each not in servers and each not in choice.servers]
    names = [each.name for each in tools]
    globs = [glob for glob in before.tools if not _is_known(glob.removeprefix("!"), names) and glob not in choice.tools]
    if choice.tools == ALL:  # with names that are given, it would be all no more
        globs = [glob for glob in globs if glob.startswith("!")]
    if not choice.tools:  # those that only take away would leave the rest
        globs = [glob for glob in globs if not glob.startswith("!")]
    chosen = () if choice.tools == ALL and globs else choice.tools
    return Choice((*choice.servers, *elsewhere) if choice.servers else (), (*chosen, *globs))


def _is_known(glob: str, names: Iterable[str]) -> bool:
    one = NameChoice((glob,))
    return any(name in one for name in names)


def _own_prefix(server: str, by_server: dict[str, list[str]]) -> str:
    """The beginning, as in `files__`, that all tools of a server have and no others; "": there is none."""
    prefix = by_server[server][0].partition("__")[0] + "__"
    own = all(name.startswith(prefix) for name in by_server[server])
    others = (name for other, names in by_server.items() if other != server for name in names)
    return prefix if own and not any(name.startswith(prefix) for name in others) else ""
