"""What a profile makes of the entries of one upstream, and of all upstreams of a view. Pure.

Tools are chosen by their visible names before renaming: those of this view and, where its name budget differs, those of
everybody's, so that a glob means the same tool in both. New names are given last, and only if no tool of the view has
them: which ones hold depends on all tools of the view, and on no order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from hub.catalog.entries import NOTHING, Route, UpstreamEntries, VisibleEntry, quote_some
from hub.catalog.fixed_arguments import CannotFix, FixedArguments, without
from hub.catalog.profile_rules import UNCHANGED, ProfileRules
from hub.catalog.sign_in_tool import SignInTool
from hub.wire.jsonrpc import raw
from hub.wire.mcp import Kind

_SCHEMA: Final = "inputSchema"
NO_RENAMES: Final[Mapping[str, str]] = {}


class ChosenEntries(UpstreamEntries):
    """The entries of one upstream for the hosts of a profile."""

    def __init__(self, source: UpstreamEntries, rules: ProfileRules, common: UpstreamEntries) -> None:
        """`source` has the names of this view's budget, `common` those of everybody's."""
        self.source = source
        self.common = common
        self.profile = rules
        self.renames: Mapping[str, str] = NO_RENAMES
        """New names of tools that hold, by their visible names."""
        self._old_names: dict[str, str] = {}
        """The visible name before renaming, by the original name."""
        self._fixed: dict[str, FixedArguments] = {}
        """By original name."""
        super().__init__(source.snapshot, source.rule, source.budget, source.claims)
        self.warnings += source.warnings

    def is_of(self, source: UpstreamEntries, rules: ProfileRules, common: UpstreamEntries) -> bool:
        """True if the same entries would come of these."""
        return self.source is source and self.common is common and self.profile is rules

    @property
    def wanted_names(self) -> dict[str, str]:
        """The new names that its tools would get, by the visible names they have."""
        found = {}
        for each in self.shown[Kind.TOOL]:
            old = self._old_names[each.original]
            if (new := self.profile.new_name(self._names(each.original))) is not None and new != old:
                found[old] = new
        return found

    def old_names(self) -> Iterable[str]:
        """The visible names of its tools before renaming."""
        return self._old_names.values()

    def renamed(self, renames: Mapping[str, str]) -> "ChosenEntries":
        """The same with these new names, and no others."""
        mine = {old: new for old, new in renames.items() if old in set(self.old_names())}
        if mine == self.renames:
            return self
        found = ChosenEntries(self.source, self.profile, self.common)
        if mine:
            found._give_names(mine)
        return found

    # --- made once

    def _all_shown(self) -> dict[Kind, tuple[VisibleEntry, ...]]:
        self._common_names = {}
        if self.common is not self.source:
            self._common_names = {each.original: each.visible for each in self.common.shown[Kind.TOOL]}
        shown = {**self.source.shown}
        shown[Kind.TOOL] = tuple(self._tools(self.source.shown[Kind.TOOL]))
        return shown

    def _tools(self, tools: Sequence[VisibleEntry]) -> Iterable[VisibleEntry]:
        hidden = []
        always = set()
        for each in tools:
            self._old_names[each.original] = each.visible
            if self.rule.sign_in is SignInTool.LISTED:  # without it nobody would learn that more is to come
                yield each
                continue
            names = self._names(each.original)
            if not self.profile.shows_tool(names):
                del self._old_names[each.original]
                continue
            override = self.profile.override(names)
            if override is not UNCHANGED:
                fields = dict(each.fields)
                if override.description:
                    fields["description"] = raw(override.description)
                if override.fix:
                    try:
                        fields[_SCHEMA] = without(fields.get(_SCHEMA), override.fix)
                    except CannotFix as error:
                        hidden.append(f"{each.visible[:60]!r} ({error})")
                        del self._old_names[each.original]
                        continue
                    self._fixed[each.original] = FixedArguments(self.profile.name, override.fix)
                each = structs.replace(each, fields=fields)
            if self.profile.is_always(names):
                always.add(each.visible)
            yield each
        self.always = frozenset(always)
        if hidden:
            more = "" if len(hidden) <= 3 else f" and {len(hidden) - 3} more"
            self.warnings.append(
                f"profile {self.profile.name}: left out, since an argument of theirs cannot be fixed: "
                f"{', '.join(hidden[:3])}{more}"
            )

    def _names(self, original: str) -> tuple[str, ...]:
        """The visible names, before renaming, that a tool is known by."""
        name, common = self._old_names[original], self._common_names.get(original)
        return (name,) if common is None or common == name else (name, common)

    def _give_names(self, renames: Mapping[str, str]) -> None:
        tools = [
            structs.replace(each, visible=renames.get(each.visible, each.visible)) for each in self.shown[Kind.TOOL]
        ]
        self.renames = renames
        self.always = frozenset(renames.get(name, name) for name in self.always)
        self.shown[Kind.TOOL] = tuple(tools)
        self._index()
        routes = self.routes[Kind.TOOL]
        for original, old in self._old_names.items():  # what was allowed by its old name stays callable
            routes.setdefault(old, self.route_of(Kind.TOOL, original))
            if old in renames and renames[old] in self.mirrors:
                self.mirrors[old] = self.mirrors[renames[old]]

    def former(self, kind: Kind) -> dict[str, Route]:
        """Routes of former names, of what is shown only."""
        shown = {each.original for each in self.shown[kind]}
        known = self.source.former(kind).items()
        return {name: self.route_of(kind, route.original) for name, route in known if route.original in shown}

    def route_of(self, kind: Kind, original: str) -> Route:
        """The route to one entry, with the arguments that the profile fixes."""
        fixed = self._fixed.get(original) if kind is Kind.TOOL else None
        return Route(self.name, original, fixed=fixed)


def choose_part(
    common: UpstreamEntries, budget: int, rules: ProfileRules, previous: UpstreamEntries | None
) -> ChosenEntries | None:
    """What is shown of one upstream, before renaming or as it was renamed before; None: nothing. `common` are the
    entries of everybody, `budget` is that of a name here."""
    if not rules.shows_server(common.name):
        return None
    known = previous if isinstance(previous, ChosenEntries) else None
    source = common
    if budget != common.budget:
        if known is not None and known.source.still_right(common.snapshot, common.rule, budget, common.claims):
            source = known.source
        else:
            source = UpstreamEntries(common.snapshot, common.rule, budget, common.claims)
    if known is not None and known.is_of(source, rules, common):
        return known
    return ChosenEntries(source, rules, common)


def rename_parts(
    parts: Sequence[ChosenEntries], rules: ProfileRules, taken: Iterable[str] = NOTHING
) -> tuple[list[ChosenEntries], list[str]]:
    """The parts with their new names, and warnings about those that do not hold.

    A new name does not hold if any tool of the view has it before renaming, or something else that is called (`taken`).
    """
    if not rules.profile.rename:
        return list(parts), []
    wanted = {old: new for part in parts for old, new in part.wanted_names.items()}
    if not wanted and not any(part.renames for part in parts):
        return list(parts), []
    used = {name for part in parts for name in part.old_names()} | set(taken)
    holding = {old: new for old, new in wanted.items() if new not in used}
    ignored = sorted(new for new in wanted.values() if new in used)
    warnings = []
    if ignored:
        warnings.append(
            f"profile {rules.name}: tools are not renamed, because others have the names: {quote_some(ignored)}"
        )
    return [part.renamed(holding) for part in parts], warnings
