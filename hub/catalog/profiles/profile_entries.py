"""The choice that a profile makes of the entries of one upstream, and of all upstreams of a view: its rules, read once
for all names that they are asked about, and what they make of entries. Pure.

Tools are chosen by their visible names before renaming: those of this view and, where its name budget differs, those of
everybody's, so that a glob means the same tool in both. New names are given last, and only if no tool of the view has
them: which ones hold depends on all tools of the view, and on no order.

What looks at many tools pauses between them: it is a generator that yields the number of those it has looked at.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import is_
from typing import Final

from msgspec import structs

from config.name_globs import EachGlob, MetGlobs, NameChoice, may_choose
from config.profile_settings import Profile, ResolvedOverride, ToolOverride
from config.server_names import RESERVED
from hub.catalog.endpoint_views import home_of
from hub.catalog.profiles.fixed_arguments import CannotFix, FixedArguments, misfits, without
from hub.catalog.sign_in_tool import SIGN_IN, SignInTool
from hub.catalog.time_slices import STEP, Steps, finish, map_in_steps
from hub.catalog.token_cost import tool_bytes
from hub.catalog.upstream_entries import NOTHING, Route, UpstreamEntries, VisibleEntry, without_output
from hub.catalog.visible_names import join_some, quote_some
from hub.wire.jsonrpc import peek_object, raw
from hub.wire.mcp import Kind

UNCHANGED: Final = ToolOverride()


class ProfileRules:
    """The choice that a profile makes of servers and of visible names, as they are before renaming. Never changes."""

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self.profile = profile
        self._servers = frozenset(profile.servers)
        self._tools = NameChoice(profile.tools)
        self.is_always = NameChoice(profile.always).chooses
        """Tells whether the tool that is known by some names is shown in search mode, too."""
        self.entries = EachGlob((*profile.tools, *profile.always), (*profile.rename, *profile.override))
        """Everything by which it means tools."""

    def shows_server(self, running: str) -> bool:
        """True if the server that runs as `running` is shown; of a project's server its own name counts."""
        return not self._servers or home_of(running)[0] in self._servers

    def shows_pipeline(self, name: str) -> bool:
        """True if a pipeline is shown: it goes by `servers`, where it is the hub's, and by what `tools` takes away."""
        away = [glob for glob in self.profile.tools if glob.startswith("!")]
        return self.shows_server(RESERVED) and (not away or name in NameChoice(away))

    def shows_tool(self, names: Collection[str]) -> bool:
        """True if a tool is shown that is known by `names`: what any of them is taken away by holds for the tool."""
        return self._tools.chooses(names)

    def override(self, names: Collection[str]) -> ToolOverride:
        """The other texts and the fixed arguments of that tool: of all its names, the first counts for more."""
        known = self.profile.override
        found = [known[name] for name in names if name in known] if known else []
        if len(found) < 2:
            return found[0] if found else UNCHANGED
        fixed = {argument: value for each in reversed(found) for argument, value in each.fix.items()}
        description = next((each.description for each in found if each.description), "")
        unread = {name: why for one in found if isinstance(one, ResolvedOverride) for name, why in one.unread.items()}
        return ResolvedOverride(description=description, fix=fixed, unread=unread)


MAX_REASON: Final = 300
"""Characters of the reason why an argument has no value."""


_SCHEMA: Final = "inputSchema"
MAX_TOLD: Final = 3
"""Tools, or arguments of one, that a warning names."""


class ChosenEntries(UpstreamEntries):
    """The entries of one upstream for the hosts of a profile."""

    def __init__(
        self,
        source: UpstreamEntries,
        rules: ProfileRules,
        common: UpstreamEntries,
        choice: "ToolChoice",
        names: Mapping[str, str] = {},
    ) -> None:
        """`source` has the names of this view's budget, `common` those of everybody's. `names`: the new names of tools
        that hold, by visible name."""
        self.source = source
        self.common = common
        self.profile = rules
        self.choice = choice
        self.names = names
        super().__init__(source.snapshot, source.rule, source.budget, source.claims)
        self._like = source
        finish(self.read())
        self.always = frozenset(names.get(name, name) for name in choice.always)
        new = [warning for warning in source.warnings if warning not in common.warnings]
        self.warnings = [*choice.warnings, *(f"profile {rules.name}: {warning}" for warning in new)]
        """Warnings that those of `common` do not hold, which were told where all see its entries."""
        routes = self.routes[Kind.TOOL]
        for each in choice.tools if names else ():  # what was allowed by its old name stays callable
            routes.setdefault(each.visible, self.route_of(Kind.TOOL, each.original))
            if (mirrors := self.mirrors.get(names.get(each.visible, ""))) is not None:
                self.mirrors.setdefault(each.visible, mirrors)

    def rename(self, names: Mapping[str, str]) -> "ChosenEntries":
        """The same with these new names, and no others."""
        mine = {old: names[old] for old in self.choice.wanted if old in names}
        if mine == self.names:
            return self
        return ChosenEntries(self.source, self.profile, self.common, self.choice, mine)

    def former(self, kind: Kind) -> dict[str, Route]:
        """Routes of former names, of what is shown only."""
        shown = {each.original for each in self.askable(kind)}
        known = self.source.former(kind).items()
        return {name: self.route_of(kind, route.original) for name, route in known if route.original in shown}

    def route_of(self, kind: Kind, original: str) -> Route:
        """The route to one entry, with the arguments that the profile fixes."""
        if kind is not Kind.TOOL:
            return Route(self.name, original)
        argument, chosen = self.source.accounts.get(original), self.choice.account
        if argument is not None and chosen:
            argument = argument.decide(f"profile {self.profile.name}")
        return Route(self.name, original, fixed=self.choice.fixed.get(original), account=argument)

    @property
    def account(self) -> str:
        """The account that the profile chooses, or whoever did before."""
        return self.choice.account or self.source.account

    def shows_tool(self, tool: str) -> bool:
        """True if the profile shows the tool, or would if it were listed now."""
        if any(each.original == tool for each in self.source.askable(Kind.TOOL)):
            return any(each.original == tool for each in self.choice.tools)
        return self.profile.shows_tool(self.source.names_of(tool) | self.common.names_of(tool))

    def chunk(self, kind: Kind, host_version: str, *, ui: bool, hidden: frozenset[str] = NOTHING) -> bytes:
        """As of all entries, and the very bytes of the source where they are the same."""
        if self.shown[kind] is self.source.shown[kind]:
            return self.source.chunk(kind, host_version, ui=ui, hidden=hidden)
        return super().chunk(kind, host_version, ui=ui, hidden=hidden)

    def tool_bytes(self, hidden: frozenset[str] = NOTHING) -> Mapping[str, int]:
        """As of all entries; only what the profile changes is counted anew."""
        if self._tool_bytes is None:
            known, same = self.source.tool_bytes(), set(map(id, self.source.shown[Kind.TOOL]))
            self._tool_bytes = {
                each.visible: known[each.visible] if id(each) in same else tool_bytes(each.visible, each.fields)
                for each in self.entries(Kind.TOOL, ui=False)
            }
        return super().tool_bytes(hidden)

    def _all_shown(self) -> Steps[dict[Kind, tuple[VisibleEntry, ...]]]:
        names = self.names
        tools = tuple(
            structs.replace(each, visible=names[each.visible]) if each.visible in names else each
            for each in self.choice.tools
        )
        all_tools = self.source.askable(Kind.TOOL)
        if len(tools) == len(all_tools) and all(map(is_, tools, all_tools)):
            tools = all_tools  # so that they are recognised
        yield from ()
        return {**{kind: self.source.askable(kind) for kind in Kind}, Kind.TOOL: tools}


def choose_part(
    common: UpstreamEntries, budget: int, rules: ProfileRules, previous: UpstreamEntries | None
) -> Steps[ChosenEntries | None]:
    """The part of one upstream that is shown, before renaming or as it was renamed before; None: nothing. `common` are
    the entries of everybody, `budget` is that of a name here."""
    if not rules.shows_server(common.name):
        return None
    known = previous if isinstance(previous, ChosenEntries) else None
    source = common
    if budget != common.budget:
        if known is not None and known.source.still_right(common.snapshot, common.rule, budget, common.claims):
            source = known.source
        else:
            source = yield from UpstreamEntries(common.snapshot, common.rule, budget, common.claims).read()
    if known is not None and known.source is source and known.common is common and known.profile is rules:
        return known
    others = {} if common is source else {each.original: each.visible for each in common.askable(Kind.TOOL)}
    meant = {own: tuple({source.with_prefix(new), common.with_prefix(new)}) for own, new in source.rule.rename}
    choice = ToolChoice(rules, source)

    def take(tool: VisibleEntry) -> None:
        names = dict.fromkeys((tool.visible, others.get(tool.original, tool.visible)))
        choice.take(tool, tuple(names), meant.get(tool.original, ()), source.rule.sign_in)

    tools = source.askable(Kind.TOOL)
    yield from map_in_steps(take, tools)
    yield len(tools) % STEP
    return ChosenEntries(source, rules, common, choice)


class ToolChoice:
    """The choice that a profile makes of the tools of one upstream, before renaming."""

    def __init__(self, rules: ProfileRules, source: UpstreamEntries) -> None:
        self._rules = rules
        account = rules.profile.accounts.get(home_of(source.name)[0], "")
        self.account = account if account in source.rule.accounts else ""
        """The one of several accounts that serves; "": the profile does not say."""
        self._with_choice = source.accounts if self.account and not source.account else {}
        self._meets = MetGlobs(rules.entries)
        self.tools: list[VisibleEntry] = []
        self.wanted: dict[str, str] = {}
        """New names that they would get, by visible name."""
        self.fixed: dict[str, FixedArguments] = {}
        """By original name."""
        self.always: list[str] = []
        """Visible names of those that are shown in search mode, too."""
        self._hidden: list[str] = []
        self._unread: list[str] = []
        self._misfits: list[str] = []

    @property
    def met(self) -> frozenset[str]:
        """Entries of the profile's settings that mean any tool of the upstream, shown or not."""
        return self._meets.notes()

    @property
    def hides(self) -> bool:
        """True if it leaves tools out because of arguments that cannot be fixed."""
        return bool(self._hidden or self._unread)

    @property
    def warnings(self) -> list[str]:
        """Sentences for the operator."""
        told = (
            ("left out, since an argument of theirs cannot be fixed", self._hidden),
            ("left out, since a fixed argument of theirs has no value", self._unread),
            ("calls will probably be refused, since a fixed argument does not fit", self._misfits),
        )
        return [f"profile {self._rules.name}: {what}: {join_some(each, MAX_TOLD)}" for what, each in told if each]

    def take(self, tool: VisibleEntry, own: Sequence[str], meant: Sequence[str], sign_in: SignInTool) -> None:
        """Look at one tool. `own`: its names now; `meant`: those that `rename` in the configuration gives it. Entries
        of the profile match either, also where the rename has no effect since another tool of the server has the name.
        """
        rules = self._rules
        if sign_in is SignInTool.LISTED:  # without it nobody would learn that more is to come
            if any(may_choose(rules.profile.tools, name.removesuffix(SIGN_IN)) for name in own):
                self.tools.append(tool)
            return
        names = tuple(dict.fromkeys((*own, *meant)))
        for name in names:
            self._meets.look_at(name)
        if not rules.shows_tool(names):
            return
        if (argument := self._with_choice.get(tool.original)) is not None:
            fields = {name: each for name, each in tool.fields.items() if name != _SCHEMA}
            fields |= {} if argument.schema is None else {_SCHEMA: argument.schema}
            tool = structs.replace(tool, fields=fields)
        override = rules.override(names)
        if override is not UNCHANGED:
            fields = dict(tool.fields)
            if override.description:
                fields["description"] = raw(override.description)
            if isinstance(override, ResolvedOverride) and override.unread:
                unread = [f'"{argument[:60]}": {why[:MAX_REASON]}' for argument, why in override.unread.items()]
                self._unread.append(f"{tool.visible[:60]!r} ({join_some(unread, MAX_TOLD)})")
                return
            if override.fix:
                try:
                    fields[_SCHEMA] = without(schema := fields.get(_SCHEMA), override.fix)
                except CannotFix as error:
                    self._hidden.append(f"{tool.visible[:60]!r} ({error})")
                    return
                self.fixed[tool.original] = FixedArguments(rules.name, override.fix)
                if wrong := [*misfits(schema, override.fix)]:
                    self._misfits.append(f"{tool.visible[:60]!r} ({join_some(wrong, MAX_TOLD)})")
            tool = structs.replace(tool, fields=fields)
        if rules.profile.large_results_bytes and "outputSchema" in tool.fields:
            tool = structs.replace(tool, fields=without_output(tool.fields))
        if rules.is_always(names):
            self.always.append(tool.visible)
            meta = {**peek_object(tool.fields.get("_meta")), "anthropic/alwaysLoad": True}
            tool = structs.replace(tool, fields={**tool.fields, "_meta": raw(meta)})
        self.tools.append(tool)
        if (new := next(filter(None, map(rules.profile.rename.get, own)), tool.visible)) != tool.visible:
            self.wanted[tool.visible] = new


def rename_parts(parts: Sequence[ChosenEntries], rules: ProfileRules) -> Steps[tuple[list[ChosenEntries], list[str]]]:
    """The parts with their new names, and warnings about those that do not hold, since a tool of the view has the name
    before renaming."""
    if not rules.profile.rename:
        return list(parts), []
    used = {each.visible for part in parts for each in part.choice.tools}
    wanted = {old: new for part in parts for old, new in part.choice.wanted.items()}
    holding = {old: new for old, new in wanted.items() if new not in used}
    ignored = sorted({new for new in wanted.values() if new in used})
    yield STEP
    renamed = []
    for part in parts:
        renamed.append(part.rename(holding))
        if renamed[-1] is not part:
            yield len(part.choice.tools)
    warning = f"profile {rules.name}: tools are not renamed, because others have the names: {quote_some(ignored)}"
    return renamed, [warning] if ignored else []
