"""Rules of hosts that name tools of servers: through the hub the tools have other names, so the rules must, too.

Claude Code calls a tool `mcp__SERVER__TOOL`, where SERVER is the name of the entry. Such names stand in its settings
(`permissions.allow`, `ask`, `deny`) and in the `tools:` lines of agents. Nothing is changed in these files: a rule that
no longer matches is found, and said with its new spelling. Rules that deny matter most: what they forbid is allowed by
another name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from config.atomic_writes import read_file
from config.diagnostics import EditError
from config.editing.text import jsonc
from config.editing.text.change import EditRefused
from config.hosts.hub_entries import KEY
from config.hosts.known_hosts import KnownHost, Machine

Kind = Literal["deny", "ask", "allow", "agent"]
KINDS: Final[tuple[Kind, ...]] = ("deny", "ask", "allow", "agent")
"""The graver ones first."""
MAX_FOLDERS: Final = 500
MAX_AGENTS: Final = 500
"""Files of agents that are looked into, in one directory."""
MAX_RULES: Final = 10_000
_HEAD: Final = re.compile(r"---\r?\n(.*?)\n---", re.S)
_NAME: Final = re.compile(r"mcp__[A-Za-z0-9_.-]+(?:__\*)?\*?")
_UNCLEAN: Final = re.compile(r"[^A-Za-z0-9_-]")


class Names(Struct, frozen=True):
    """The names of one server: in a host before, and through the hub."""

    key: str
    """Of the host's entry."""
    upstream: str
    prefix: str
    """Of its tools in the hub; "": they have none."""


class Rule(Struct, frozen=True):
    """A rule that does not match the same tools through the hub."""

    path: Path
    kind: Kind
    rule: str
    new: str
    """The rule to add."""
    upstream: str


Visible = Callable[[str, str], str]
"""The hub's name of a tool, by a prefix and its own name."""


def find_rules(
    host: KnownHost, machine: Machine, folders: Iterable[Path], servers: Iterable[Names], visible: Visible
) -> list[Rule]:
    """Rules for tools of `servers` that lack their counterpart for the hub's names, those that deny first.

    `folders` are projects that the host knows. Files that cannot be read have no rules, for the host neither.
    """
    names = {_UNCLEAN.sub("_", each.key): each for each in servers}
    found: list[Rule] = []
    for path, kind, rules in _files(host, machine, folders):
        for rule in islice(rules, MAX_RULES):
            spelled = respell(rule, names, visible)
            if spelled is not None and not _covers(rules, spelled[0]):
                found.append(Rule(path, kind, rule, *spelled))
    return sorted(dict.fromkeys(found), key=lambda each: KINDS.index(each.kind))


def _covers(rules: list[str], new: str) -> bool:
    """True if a rule for the hub, or for all that one of its servers has, is there already."""
    wider = (f"mcp__{KEY}", f"mcp__{KEY}__*", "__".join((*new.split("__")[:3], "*")), new)
    return any(rule in rules for rule in wider)


def respell(rule: str, names: Mapping[str, Names], visible: Visible) -> tuple[str, str] | None:
    """A rule for the same tools through the hub, and the server; None: it is about none of these servers. Pure."""
    server, tool = _split(rule, names)
    if server is None:
        return None
    if not server.prefix:
        return f"mcp__{KEY}__{tool or '*'}", server.upstream
    new = visible(server.prefix, tool) if tool and "*" not in tool else f"{server.prefix}__{tool or '*'}"
    return f"mcp__{KEY}__{new}", server.upstream


def _split(rule: str, names: Mapping[str, Names]) -> tuple[Names | None, str]:
    """The server that a rule is about, and the tool; "": all. Names of servers may hold two underscores themselves."""
    text = rule.partition("(")[0].strip()
    for key in sorted(names, key=len, reverse=True):
        if text == f"mcp__{key}" or text.startswith(f"mcp__{key}__"):
            return names[key], text.removeprefix(f"mcp__{key}").removeprefix("__")
    return None, ""


# --- the files --------------------------------------------------------------------------------------------------------


def _files(host: KnownHost, machine: Machine, folders: Iterable[Path]) -> Iterator[tuple[Path, Kind, list[str]]]:
    """Each list of rules: the file, what it is for, and the rules."""
    folders = list(islice(folders, MAX_FOLDERS))

    def places(of_user: Iterable[str], of_projects: Sequence[str]) -> dict[Path, None]:
        found = [*map(machine.path, of_user), *(folder / text for folder in folders for text in of_projects)]
        return dict.fromkeys(found)

    for path in places(host.permissions, host.project_permissions):
        yield from ((path, kind, rules) for kind, rules in _rules_of_settings(_text(path)))
    for directory in places(host.agents, host.project_agents):
        with suppress(OSError):
            for path in sorted(islice(directory.glob("*.md"), MAX_AGENTS)):
                if rules := _rules_of_agent(_text(path)):
                    yield path, "agent", rules


def _text(path: Path) -> str:
    with suppress(EditError):
        return (read_file(path) or b"").decode(errors="replace")
    return ""


def _rules_of_settings(text: str) -> Iterator[tuple[Kind, list[str]]]:
    document: Any = None
    with suppress(EditRefused):
        document = jsonc.read(text)
    lists = document.get("permissions") if isinstance(document, dict) else None
    for kind in KINDS:
        rules = lists.get(kind) if isinstance(lists, dict) else None
        if isinstance(rules, list):
            yield kind, [rule for rule in rules if isinstance(rule, str)]


def _rules_of_agent(text: str) -> list[str]:
    """The tools that the head of an agent names, in whatever form it lists them."""
    head = _HEAD.match(text.removeprefix("\ufeff"))
    return list(dict.fromkeys(_NAME.findall(head[1]))) if head else []
