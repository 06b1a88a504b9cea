"""Entries of settings that mean no tool, and profiles that show none: sentences for the operator. Pure.

Only of servers whose tools are known: an entry that may mean a tool of another one is not doubted. What begins with the
id of no server at all is told where the configuration is read (`config.loading.checks.profiles`).

Sentences name few entries, and what is near them is looked for among few tools, whatever servers list. What looks at
many tools pauses between them: it is a generator that yields the number of those it has looked at.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from config.name_globs import ALL, EachGlob, MetGlobs, NameChoice, NameStarts, is_wild, literal_start
from config.server_names import RESERVED
from hub.catalog.profiles.profile_entries import ChosenEntries, ProfileRules
from hub.catalog.search.index import near_names
from hub.catalog.time_slices import STEP, Steps, map_in_steps
from hub.catalog.upstream_entries import UpstreamEntries
from hub.catalog.visible_names import UpstreamRule, join_some, name_id
from hub.wire.mcp import Kind

MAX_TOLD: Final = 8
"""Entries that a sentence names."""
MAX_QUOTED: Final = 60
"""Characters of each."""
MAX_COMPARED: Final = 300
"""Names that one is compared with, without a pause: 5 ms at most."""


class KnownTools(Struct, frozen=True):
    """The tools that a profile chooses from."""

    parts: Sequence[UpstreamEntries]
    rules: Sequence[UpstreamRule]
    heard: Collection[str]
    """Upstreams whose tools are known."""


class ProfileDoubts(Struct, frozen=True):
    """Sentences about a profile, and what they were made of."""

    rules: ProfileRules
    known: KnownTools
    sentences: tuple[str, ...]

    def still_right(self, rules: ProfileRules, known: KnownTools) -> bool:
        """True if the same sentences would come of these."""
        return self.rules is rules and self.known == known


# --- profiles ---------------------------------------------------------------------------------------------------------


def doubts_of_profile(
    rules: ProfileRules, chosen: Sequence[ChosenEntries], known: KnownTools, budgets: Collection[int]
) -> Steps[ProfileDoubts]:
    """The doubts about a profile: `chosen` is what it makes of what is `known`, in names of these `budgets`."""
    away = [each for each in known.rules if rules.shows_server(each.name) and each.name not in known.heard]
    waiting, all_servers = starts_of(away, budgets), starts_of(known.rules, budgets)
    met = frozenset[str]().union(*(part.choice.met for part in chosen))
    hints = _Hints(rules, chosen, known.parts)
    sentences: list[str] = []

    def means_nothing(entry: str, name: str) -> bool:
        """True if no tool is called so, and no server that is away may have one; entries of no server are told where
        the configuration is read."""
        is_of_a_server = "__" not in literal_start(entry.removeprefix("!")) or all_servers.fit(entry)
        return name != "*" and name not in met and not waiting.fit(entry) and is_of_a_server

    for setting, what in _WHAT.items():
        entries = dict.fromkeys(getattr(rules.profile, setting))
        lost = [each for each in entries if means_nothing(each, each.removeprefix("!") if setting in _GLOBS else each)]
        yield len(entries)
        if lost:
            yield from hints.read()
            sentences += yield from _sentence_about(what, lost, hints.of)
    if not any(part.entries(Kind.TOOL, ui=False) for part in chosen):
        sentences[:0] = _why_nothing(rules, known, chosen, met, is_any_away=bool(away))
    return ProfileDoubts(rules, known, tuple(f"profile {rules.name}: {sentence}" for sentence in sentences))


_GLOBS: Final = ("tools", "always")
_WHAT: Final = {
    "tools": "entries of its `tools` mean no tool",
    "always": "entries of its `always` mean no tool",
    "rename": "its `rename` names tools that are not there",
    "override": "its `override` names tools that are not there",
}
"""The settings of a profile that name tools, by visible names."""


def _why_nothing(
    rules: ProfileRules, known: KnownTools, chosen: Sequence[ChosenEntries], met: frozenset[str], *, is_any_away: bool
) -> Iterator[str]:
    """The reason why a profile shows no tool, unless servers are away, or nobody has any."""
    tools = rules.profile.tools
    given = [entry for entry in tools if not entry.startswith("!")]
    if not any(part.shown[Kind.TOOL] for part in known.parts):
        return
    if not tools:
        yield "shows no tool, since its `tools` is an empty list; without that setting it shows all"
    elif is_any_away or not {*(rule.name for rule in known.rules), RESERVED}.issuperset(rules.profile.servers):
        return  # of servers that are not there the configuration warns
    elif not any(part.source.shown[Kind.TOOL] for part in chosen):
        yield "shows no tool, since none of its `servers` has any"
    elif given and "*" not in given and met.isdisjoint(given):
        yield "shows no tool, since no entry of its `tools` means one"
    elif any(part.choice.hides for part in chosen):
        yield "shows no tool, since arguments of those that it chooses cannot be fixed"
    elif not any(part.choice.tools for part in chosen):
        yield "shows no tool, since entries of its `tools` that begin with ! take away all that is there"
    else:
        yield "shows no tool to a model: those that it chooses are for user interfaces"


def starts_of(rules: Iterable[UpstreamRule], budgets: Iterable[int]) -> NameStarts:
    """The beginnings of the visible names of these upstreams' tools, now or under their former names."""
    found = list(rules)
    named = [(rule, budget) for rule in found if rule.prefix != "" for budget in budgets]
    ids = (id for rule, budget in named for id in (rule.sid(budget), *(name_id(each, budget) for each in rule.aliases)))
    return NameStarts(ids, any_name=any(rule.prefix == "" for rule in found))


class _Hints:
    """The probable meaning of entries of a profile that mean nothing."""

    def __init__(self, rules: ProfileRules, chosen: Sequence[ChosenEntries], parts: Sequence[UpstreamEntries]) -> None:
        self._sources = [part.source for part in chosen]
        self._others = [part for part in parts if not rules.shows_server(part.name)]
        self._new_names = {new: old for old, new in rules.profile.rename.items()}
        self._meant: dict[str, str] | None = None
        """Visible names by others that the same tools have; "": there are several such tools."""

    def read(self) -> Steps[None]:
        """Read what is needed for all hints."""
        if self._meant is not None:
            return
        self._meant = {}
        for part in self._sources:
            start = "" if part.rule.prefix == "" else f"{part.sid}__"
            visible = {}
            for each in part.shown[Kind.TOOL]:
                visible[each.original] = each.visible
                for name in (each.original, f"{start}{each.original}"):
                    self._meant[name] = each.visible if self._meant.get(name, each.visible) == each.visible else ""
            for name, route in part.former(Kind.TOOL).items():
                self._meant.setdefault(name, visible[route.original])
            yield len(visible)

    def of(self, entry: str) -> str:
        """The hint at what is meant by an entry, as it follows the entry; "": there is none."""
        name = entry.removeprefix("!")
        if hidden := self._server_out_of_view(name):
            return f' (its `servers` leaves "{hidden}" out)'
        if name in self._new_names:
            return f" (a new name; write {_quote(self._new_names[name])})"
        meant = self._of_glob(name) if is_wild(name) else (self._meant or {}).get(name)
        return _ask_whether(meant or self._near(name))

    def _server_out_of_view(self, name: str) -> str:
        choice = NameChoice((name,))
        near = (part for part in self._others if starts_of([part.rule], [part.budget]).fit(name))
        return next((part.name for part in near if any(each.visible in choice for each in part.shown[Kind.TOOL])), "")

    def _of_glob(self, glob: str) -> str:
        """The same glob behind the id of a server, if it means names as that server itself has them."""
        choice = NameChoice((glob,))
        meant = (part.sid for part in self._sources if any(each.original in choice for each in part.shown[Kind.TOOL]))
        return next((f"{sid}__{glob}" for sid in meant), "")

    def _near(self, name: str) -> str:
        """The name most like it: among those of the server whose id begins it, or else of all."""
        for part in self._sources:
            start = f"{part.sid}__"
            if part.rule.prefix != "" and name.startswith(start):
                rests = (each.visible.removeprefix(start) for each in part.shown[Kind.TOOL])
                found = _nearest(name.removeprefix(start), rests)
                return found and start + found
        return _nearest(name, (each.visible for part in self._sources for each in part.shown[Kind.TOOL]))


# --- upstreams --------------------------------------------------------------------------------------------------------


def doubts_of_upstream(part: UpstreamEntries) -> Steps[list[str]]:
    """Sentences about settings of one upstream that name tools which it does not have."""
    rule = part.rule
    if rule.tools == ALL and not rule.rename and not rule.describe:
        return []
    own = [entry.key for entry in part.snapshot.lists.get(Kind.TOOL, ())]
    meets = MetGlobs(EachGlob(rule.tools))
    yield from map_in_steps(meets.look_at, own)
    met, names = meets.notes(), frozenset(own)
    lost = {
        "entries of `tools` mean no tool of it": [
            each for each in dict.fromkeys(rule.tools) if each != "*" and each.removeprefix("!") not in met
        ],
        "`rename` names tools that it does not have": [name for name, _ in rule.rename if name not in names],
        "`describe` names tools that it does not have": [name for name, _ in rule.describe if name not in names],
    }
    visible = {each.visible: each.original for each in part.shown[Kind.TOOL]} if any(lost.values()) else {}
    start = "" if rule.prefix == "" else f"{part.sid}__"

    def hint(entry: str) -> str:
        name = entry.removeprefix("!")
        rest = name.removeprefix(start)
        meant = visible.get(name) or visible.get(f"{start}{name}")
        return _ask_whether(meant or (rest if is_wild(name) and rest != name else _nearest(rest, own)))

    found: list[str] = []
    for what, entries in lost.items():
        found += yield from _sentence_about(f"{part.name}: {what}", entries, hint)
    return found


# --- both -------------------------------------------------------------------------------------------------------------


def _sentence_about(what: str, entries: Sequence[str], hint: Callable[[str], str]) -> Steps[list[str]]:
    """A sentence about the first of `entries`, each with the hint at what is meant by it; none, if there are none."""
    texts = []
    for entry in entries[:MAX_TOLD]:
        texts.append(_quote(entry) + hint(entry))
        yield STEP
    return [f"{what}: {join_some(texts, MAX_TOLD, len(entries))}"] if texts else []


def _ask_whether(meant: str) -> str:
    return f" (did you mean {_quote(meant)}?)" if meant else ""


def _nearest(entry: str, known: Iterable[str]) -> str:
    """The one of the first `MAX_COMPARED` names, but for long ones, that an entry is most like; "": it is like none."""
    short = (each for each in islice(known, MAX_COMPARED) if len(each) <= MAX_QUOTED)
    return "".join(near_names(entry.replace("*", "").replace("?", ""), short, most=1))


def _quote(name: str) -> str:
    return repr(name[:MAX_QUOTED])
