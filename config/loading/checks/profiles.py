"""Checks of `[profiles.NAME]`, beyond types. Pure.

Everything that a profile makes the hub do for each tool of each view is bounded here. Problems show no fixed value.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from config.diagnostics import Keys, Problem, quote_toml
from config.loading.checks.http_access import LABEL
from config.name_globs import MAX_CHARS, NameStarts, literal_start, problem_of
from config.profile_settings import Profile, ToolOverride
from config.secret_references import json_size
from config.secrets.fill_secret_values import MAX_FIXED_BYTES, NOT_READ_YET, unread_arguments
from config.server_names import RESERVED
from config.settings import UpstreamConfig

PROFILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
PROFILE_NAME_RULE: Final = "lower-case letters, digits, dots, dashes and underscores, at most 32"
OWN_LABEL: Final = "hubd"
"""The label of the hub's own commands, which are shown everything."""
MAX_PROFILES: Final = 64
MAX_ENTRIES: Final = 1_000
"""Most entries of a list or table of a profile."""
MAX_FIXED: Final = 64
"""Most fixed arguments of a tool."""
MAX_DESCRIPTION_BYTES: Final = 16 << 10
MAX_INSTRUCTIONS_BYTES: Final = 2_000
"""All instructions of the hub together; what servers say gets what is left."""
HUB_TOOLS: Final = "hub__"
"""Beginning of the names of the hub's own tools."""
NEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""The form of a name that the configuration gives to a tool."""


def problems_of_profiles(profiles: Mapping[str, Profile], budget: int) -> Iterator[Problem]:
    """Problems of all profiles; `budget`: characters of a visible name, where a profile does not say."""
    if len(profiles) > MAX_PROFILES:
        yield Problem("profiles", f"there are {len(profiles)} profiles, and {MAX_PROFILES} are the most")
        return
    labels: dict[str, str] = {}
    for name, profile in profiles.items():
        keys = ("profiles", name)
        if not PROFILE_NAME.fullmatch(name):
            yield Problem(keys, f"cannot be the name of a profile: {PROFILE_NAME_RULE}")
        for label in filter(LABEL.fullmatch, dict.fromkeys(profile.hosts)):
            if (other := labels.setdefault(label, name)) != name:
                text = f'"{label}" is a host of the profile {other}, too; a host has one profile: take it out of one'
                yield Problem((*keys, "hosts"), text)
        yield from (problem.below(*keys) for problem in _problems_of(profile, budget))


def warnings_of_profiles(profiles: Mapping[str, Profile], servers: Mapping[str, UpstreamConfig]) -> Iterator[Problem]:
    """Warnings about profiles; `servers` are all of the user's, be they disabled or left out. Of which tools there are
    `hub.catalog.profiles.unmatched_names` warns."""
    find_lost = find_names_of_nobody(servers)
    for name, profile in profiles.items():
        keys = ("profiles", name, "servers")
        unknown = [each for each in dict.fromkeys(profile.servers) if each not in servers and each != RESERVED]
        for server in unknown[:MAX_TOLD]:
            from difflib import get_close_matches  # not above: it is large, and most hubs never need it

            text = f"there is no server {quote_toml(server[:MAX_QUOTED])} here, unless a project has one of that name"
            near = get_close_matches(server[:MAX_QUOTED], list(servers), 1)
            yield Problem(keys, f"{text}; did you mean {quote_toml(near[0])}?" if near else text)
        if len(unknown) > MAX_TOLD:
            yield Problem(keys, f"there are no servers of {len(unknown) - MAX_TOLD} more of these names")
        if unknown and {*unknown}.issuperset(profile.servers):
            yield Problem(keys, "without any of these the profile shows nothing; without this setting it shows all")
        for setting in ("tools", "always", "rename", "override"):
            if lost := find_lost(getattr(profile, setting)):
                yield Problem(("profiles", name, setting), lost)
    yield from warnings_of_unread(profiles)


def warnings_of_unread(profiles: Mapping[str, Profile]) -> Iterator[Problem]:
    """Warnings about fixed arguments without a value, whose tools are left out; few, so that a file of many such lines
    fills no log."""
    lacking = [(keys, why) for keys, why in unread_arguments(profiles) if why != NOT_READ_YET]
    for keys, why in lacking[:MAX_ARGUMENTS_TOLD]:
        tool = quote_toml(keys[3][:MAX_QUOTED])
        yield Problem(keys, f"{why}. Until that is mended profile {keys[1]} leaves {tool} out")
    if len(lacking) > MAX_ARGUMENTS_TOLD:
        text = f"{len(lacking) - MAX_ARGUMENTS_TOLD} more fixed arguments have no value; their tools are left out, too"
        yield Problem("profiles", text)


def find_names_of_nobody(servers: Mapping[str, UpstreamConfig]) -> Callable[[Iterable[str]], str]:
    """Finds the entries that begin as no tool of these servers, and says so; "": there are none."""
    ids = {name: server.prefix or name for name, server in servers.items()}
    former = (alias for server in servers.values() for alias in server.aliases)
    is_bare = any(server.prefix == "" for server in servers.values())
    starts = NameStarts((*ids.values(), *former, RESERVED), any_name=is_bare)

    def find(entries: Iterable[str]) -> str:
        lost = [entry for entry in entries if _is_of_nobody(entry, starts)]
        text = "no server here has tools of such names, unless a project has one that does"
        return f"{text}: {_quote_entries(lost, ids)}" if lost else ""

    return find


def _is_of_nobody(entry: str, starts: NameStarts) -> bool:
    id, mark, _ = literal_start(entry.removeprefix("!")).partition("__")
    return bool(mark) and not _MADE_ID.search(id) and not starts.fit(entry)


_MADE_ID: Final = re.compile(r"-[0-9a-f]{4}(?:[0-9a-f]{4})?$")
"""The end of an id that the hub makes of a name that is too long, or has characters that hosts do not take."""
MAX_TOLD: Final = 8
"""Entries that a warning names."""
MAX_QUOTED: Final = 60
"""Characters of each."""
MAX_ARGUMENTS_TOLD: Final = 16
"""Fixed arguments without a value that are told one by one."""


def _quote_entries(entries: Sequence[str], ids: Mapping[str, str]) -> str:
    """The first few of such entries, with what is probably meant; `ids`: what begins the names of a server's tools."""
    from difflib import get_close_matches  # not above: it is large, and most hubs never need it

    known = {**ids, **{id: id for id in ids.values()}}
    told = []
    for entry in entries[:MAX_TOLD]:
        id, mark, rest = entry.removeprefix("!").partition("__")
        near = get_close_matches(id[:MAX_QUOTED], sorted(known), 1)
        meant = f" (did you mean {(known[near[0]] + mark + rest)[:MAX_QUOTED]!r}?)" if near else ""
        told.append(f"{entry[:MAX_QUOTED]!r}{meant}")
    more = f" and {len(entries) - MAX_TOLD} more" if len(entries) > MAX_TOLD else ""
    return f"{', '.join(told)}{more}"


def _problems_of(profile: Profile, budget: int) -> Iterator[Problem]:
    if not all(map(LABEL.fullmatch, profile.hosts)):
        yield Problem("hosts", "a label is printable ASCII without spaces, at most 64 characters")
    if OWN_LABEL in profile.hosts:
        yield Problem("hosts", f'"{OWN_LABEL}" is the label of hubd\'s own commands, which are shown everything')
    for setting in ("hosts", "servers"):
        if len(getattr(profile, setting)) > MAX_ENTRIES:
            yield Problem((setting,), f"has more than {MAX_ENTRIES} entries")
    for setting in ("tools", "always"):
        if why := problem_of(getattr(profile, setting)):
            yield Problem((setting,), why)
    if (size := _size(profile.instructions)) > MAX_INSTRUCTIONS_BYTES:
        text = f"takes {size} bytes, and {MAX_INSTRUCTIONS_BYTES} are the most for all instructions together"
        yield Problem("instructions", text)
    yield from _problems_of_names(profile.rename, budget if profile.name_budget is None else profile.name_budget)
    if len(profile.override) > MAX_ENTRIES:
        yield Problem("override", f"has more than {MAX_ENTRIES} entries")
        return
    for name, override in profile.override.items():
        if not 0 < len(name) <= MAX_CHARS:
            yield Problem("override", _NO_NAME)
        yield from (problem.below("override", name) for problem in _problems_of_override(override))


_NO_NAME: Final = f"has an entry for no tool: a visible name has 1 to {MAX_CHARS} characters"


def _problems_of_names(rename: Mapping[str, str], budget: int) -> Iterator[Problem]:
    if len(rename) > MAX_ENTRIES:
        yield Problem("rename", f"has more than {MAX_ENTRIES} entries")
        return
    taken: dict[str, str] = {}
    for name, new in rename.items():
        keys: Keys = ("rename", name)
        if not 0 < len(name) <= MAX_CHARS:
            yield Problem("rename", _NO_NAME)
        elif not NEW_NAME.fullmatch(new):
            yield Problem(keys, "expected a name: a letter, then letters, digits, dashes and underscores")
        elif len(new) > budget:
            yield Problem(keys, f"has {len(new)} characters, and a visible name here has at most {budget}")
        elif new.startswith(HUB_TOOLS):
            yield Problem(keys, f"names that begin with {HUB_TOOLS} are those of the hub's own tools")
        elif (other := taken.setdefault(new, name)) != name:
            yield Problem(keys, f"is the new name of {other[:60]!r}, too; give each its own")


def _problems_of_override(override: ToolOverride) -> Iterator[Problem]:
    if (size := _size(override.description)) > MAX_DESCRIPTION_BYTES:
        yield Problem("description", f"takes {size} bytes, and {MAX_DESCRIPTION_BYTES} are the most")
    if len(override.fix) > MAX_FIXED:
        yield Problem("fix", f"has more than {MAX_FIXED} arguments")
        return
    sizes = {argument: json_size(value) for argument, value in override.fix.items()}
    for argument in (argument for argument, size in sizes.items() if size is None):
        yield Problem(("fix", argument), "is no value that JSON can hold")
    if (total := sum(size or 0 for size in sizes.values())) > MAX_FIXED_BYTES:
        yield Problem("fix", f"takes {total} bytes, and {MAX_FIXED_BYTES} are the most")


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
