"""Entries of one upstream as hosts see them: visible names and URIs, and their bytes for each revision.

Made anew for each snapshot, in steps between which others have their turn; `hub.catalog.merge_catalog` puts the
entries of all upstreams together.

Hosts let a user interface (MCP Apps) call every tool of "the server", which here is the hub, by the names that its own
server gave them. So for hosts with user interfaces every tool is shown for the model only, and the tools that a user
interface may call are listed once more, under their bare names, for user interfaces only.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from operator import is_
from typing import Final, Self

from msgspec import Raw, Struct, structs

from config.name_globs import ALL, NameChoice
from hub.catalog.account_argument import AccountArgument, argument_of, with_argument
from hub.catalog.instructions import one_line
from hub.catalog.profiles.fixed_arguments import FixedArguments
from hub.catalog.rewrite_embedded_uris import UI_KEYS, localise_meta
from hub.catalog.sign_in_tool import SIGN_IN, SignInTool, sign_in_tool
from hub.catalog.time_slices import STEP, Steps, map_in_steps
from hub.catalog.token_cost import tool_bytes
from hub.catalog.tool_annotations import marks_of, with_hints
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import NameKind, UpstreamRule, name_id, quote_some, rename, visible_name
from hub.wire import byte_checks, mcp
from hub.wire.http.mirror_headers import InvalidMirror, Mirror, mirrors_of
from hub.wire.jsonrpc import EMPTY, encode, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import Kind
from hub.wire.results_for_hosts import entry_for_host
from hub.wire.upstream_snapshot import ListEntry, Snapshot

NAME_KINDS: Final[dict[Kind, NameKind]] = {Kind.TOOL: "tool", Kind.PROMPT: "prompt"}
NOTHING: Final[frozenset[str]] = frozenset()
_ASK = raw("ask")
_MODEL, _APP = raw("model"), raw("app")
"""The audiences of a tool."""
MAX_CHUNKS: Final = 8
"""Choices of the same entries whose JSON is kept: views of some profiles, with and without search mode."""


def without_output(fields: dict[str, Raw]) -> dict[str, Raw]:
    """The members of a tool whose results may be cut: it promises no structured ones."""
    return {name: value for name, value in fields.items() if name != "outputSchema"}


class Route(Struct, frozen=True):
    """Owner of a visible name or URI: the upstream, and the upstream's own name or URI."""

    upstream: str
    original: str
    signs_in: bool = False
    """It is the hub's own tool that has a person sign in there."""
    fixed: FixedArguments | None = None
    """The arguments of the tool that the profile of a host fixes."""
    account: AccountArgument | None = None
    """The argument of the tool that chooses among several accounts."""


class VisibleEntry(Struct, frozen=True):
    """One entry as hosts see it. The hub's own `_meta` is added when it is encoded."""

    visible: str
    original: str
    fields: dict[str, Raw]
    app_only: bool = False
    """A tool for user interfaces, which the model is not to see."""
    asks: bool = False
    """A person is asked before it is used."""
    is_alias: bool = False
    """A second entry of a tool, under its bare name, for user interfaces of its upstream."""


_Lists = dict[Kind, tuple[VisibleEntry, ...]]


class UpstreamEntries:
    """The entries of one upstream under the names of the common endpoint or of its own (`/mcp/<name>`), once they were
    `read`. `common`: the entries of the common endpoint, of which these are its own."""

    def __init__(
        self, snapshot: Snapshot, rule: UpstreamRule, budget: int, claims: UriClaims, *, common: Self | None = None
    ) -> None:
        self.snapshot = snapshot
        self.name = snapshot.upstream
        self.warnings: list[str] = []
        self.doubts: Sequence[str] | None = None
        """Sentences about settings that name tools which it does not have; None: nobody has looked."""
        self.rule, self.budget, self.claims = rule, budget, claims
        self.always = NOTHING
        """Visible names of the tools that are shown in search mode, too."""
        self.sid = rule.sid(budget)
        """The server id in visible names."""
        self._like: UpstreamEntries | None = common
        """Others, in which arguments of the same tools that go into headers are known."""
        self._identity = common is not None
        self._bare = self._identity or rule.prefix == ""
        self.accounts: dict[str, AccountArgument] = {}
        """By own name, the arguments of tools that choose among several accounts."""
        self._scoped: UpstreamEntries | None = None
        self._renamed: dict[str, str] = {}
        """By the visible name of a renamed tool, that which it has by itself."""
        self.contested: dict[str, str] = {}
        """By own name, the visible one that the configuration gives to a tool while another has it; rules know both."""
        self._chunks: dict[tuple[Kind, str, bool], dict[frozenset[str], bytes]] = {}
        """By what is hidden, the lists as JSON; of each at most `MAX_CHUNKS`, those that were used last at the end."""
        self._tool_bytes: dict[str, int] | None = None

    def read(self) -> "Steps[UpstreamEntries]":
        """Read the snapshot, with pauses, and return this; yields the number of entries that were looked at. Where
        others give up claims in a pause, it has to be read again for the next catalogue."""
        others = 0
        for looked_at in self._reading():
            before = self.claims.releases
            yield looked_at
            others += self.claims.releases - before
        self._releases = self.claims.releases - others
        yield sum(map(len, self.shown.values())) % STEP
        return self

    def _reading(self) -> Steps[None]:
        named = yield from self._all_shown()
        self.shown, self.held = (named, {}) if not self.rule.held else self._split(named)
        self.routes: dict[Kind, dict[str, Route]] = {}
        for kind in named:
            self.routes[kind] = {each.visible: self.route_of(kind, each.original) for each in self.askable(kind)}
        if self.rule.sign_in is SignInTool.LISTED:
            self.routes[Kind.TOOL] = self.route_of_sign_in
        self.apps = () if self._bare or not self.rule.apps else self._for_views()
        """Tools under their bare names, as user interfaces of this upstream call them."""
        self.mirrors = yield from self._all_mirrors()
        """The arguments of tools that modern hosts repeat in headers, by visible name."""
        self.varies = bool(self.apps) or any(each.app_only for each in self.shown[Kind.TOOL])
        """True if hosts with user interfaces see more than those without."""

    def _split(self, named: _Lists) -> tuple[_Lists, _Lists]:
        """The entries that are shown, and those that are held back; what has none of these stays the same object."""
        shown, held = dict(named), _Lists()
        for kind, its in named.items():
            if back := tuple(each for each in its if (kind, each.original) in self.rule.held):
                held[kind] = back
                shown[kind] = tuple(each for each in its if (kind, each.original) not in self.rule.held)
        return shown, held

    def askable(self, kind: Kind) -> tuple[VisibleEntry, ...]:
        """The entries that hosts can ask for: those that are shown, and those that are held back."""
        held = self.held.get(kind)
        return self.shown[kind] if held is None else (*self.shown[kind], *held)

    def route_of(self, kind: Kind, original: str) -> Route:
        """The route to one of its entries."""
        return Route(self.name, original, account=self.accounts.get(original) if kind is Kind.TOOL else None)

    @property
    def account(self) -> str:
        """The account that serves hosts here, whatever they say; "": they choose."""
        return self.rule.account

    def names_of(self, tool: str) -> set[str]:
        """The visible names, here, of a tool that may not be listed now, by its own name."""
        listed = {each.visible for each in self.askable(Kind.TOOL) if each.original == tool}
        own = dict(self.rule.rename).get(tool, tool)
        is_own = self._bare and not own.startswith(self.rule.taken)
        return listed or {own if is_own else visible_name("tool", self.sid, own, self.budget)}

    def shows_tool(self, tool: str) -> bool:
        """True if a tool of that own name is shown here whenever it is listed."""
        return True

    def find(self, kind: Kind, original: str) -> VisibleEntry | None:
        """The entry of this own name or URI that hosts can ask for; None: it is not listed."""
        return next((each for each in self.askable(kind) if each.original == original), None)

    def marks_of(self, tool: VisibleEntry) -> frozenset[str]:
        """The marks of a tool that are believed."""
        return marks_of(tool.fields, tool.original, self.rule.hints, trusted=self.rule.trusted)

    def only_reads(self, tool: VisibleEntry) -> bool:
        """True if it is believed of a tool that it changes nothing."""
        return "read-only" in self.marks_of(tool)

    def select(self, choose: Callable[[Kind, VisibleEntry], VisibleEntry | None]) -> Self:
        """The same, but of its entries what `choose` makes of each; None: it is left out, and nothing leads there."""
        shown, held = (
            {kind: tuple(filter(None, (choose(kind, each) for each in its))) for kind, its in lists.items()}
            for lists in (self.shown, self.held)
        )
        if held == self.held and all(
            len(shown[kind]) == len(its) and all(map(is_, shown[kind], its)) for kind, its in self.shown.items()
        ):
            return self
        found = copy(self)
        found.shown = {kind: its if shown[kind] == its else shown[kind] for kind, its in self.shown.items()}
        found.held = held
        left = {kind: {each.original: each for each in (*its, *held.get(kind, ()))} for kind, its in shown.items()}
        found.routes = {
            kind: {name: route for name, route in its.items() if route.original in left.get(kind, ())}
            for kind, its in self.routes.items()
        }
        tools = left[Kind.TOOL]
        found.apps = tuple(
            structs.replace(each, asks=tools[each.original].asks) for each in self.apps if each.original in tools
        )
        found.mirrors = {name: its for name, its in self.mirrors.items() if name in found.routes[Kind.TOOL]}
        found.varies = bool(found.apps) or any(each.app_only for each in shown[Kind.TOOL])
        found.always = self.always & {each.visible for each in shown[Kind.TOOL]}
        found.doubts, found.warnings = (), []
        found._scoped, found._tool_bytes = None, None
        found._chunks = {key: each for key, each in self._chunks.items() if found.shown[key[0]] is self.shown[key[0]]}
        return found

    def still_right(self, snapshot: Snapshot, rule: UpstreamRule, budget: int, claims: UriClaims) -> bool:
        """True if the same entries would come of these."""
        return (
            self.snapshot is snapshot
            and self.claims is claims
            and self._releases == claims.releases
            and (self.rule, self.budget) == (rule, budget)
        )

    def in_own_scope(self) -> "Steps[UpstreamEntries]":
        """The same entries under the upstream's own names and URIs; made once, in steps."""
        if self._scoped is None:
            own = UpstreamEntries(self.snapshot, self.rule, self.budget, self.claims, common=self)
            made = yield from own.read()
            self._scoped = self._scoped or made
        return self._scoped

    @property
    def server_id(self) -> str:
        """The word that tells its tools in a search: the beginning of their names or, without that, its name."""
        return self.name if self._bare else self.sid

    def with_prefix(self, name: str) -> str:
        """A name that the configuration gives to one of its tools, as hosts see it."""
        return name if self._bare else f"{self.sid}__{name}"

    @property
    def title(self) -> str:
        """The server's title on one line; "": it has none."""
        return one_line(peek_str(self.snapshot.server_info.get("title")) or "")

    @property
    def route_of_sign_in(self) -> dict[str, Route]:
        """The route of the tool that has a person sign in, by its visible name; none, if there never was such a one."""
        if self.rule.sign_in is SignInTool.NONE:
            return {}
        name = SIGN_IN if self._bare else visible_name("tool", self.sid, SIGN_IN, self.budget)
        return {name: Route(self.name, SIGN_IN, signs_in=True)}

    def former(self, kind: Kind) -> dict[str, Route]:
        """Routes of the visible names that its entries would have under its former names, or had before a rename."""
        if kind not in NAME_KINDS or self.rule.sign_in is SignInTool.LISTED:
            return {}
        if self._bare:
            return self._former_of_renamed(()) if kind is Kind.TOOL else {}
        sids = {name_id(alias, self.budget) for alias in self.rule.aliases}
        sids |= {name_id(name) for name in (self.rule.prefix or self.name, *self.rule.aliases)}  # of other budgets
        routes = {
            visible_name(NAME_KINDS[kind], sid, each.original, self.budget): self.route_of(kind, each.original)
            for sid in sids - {self.sid}
            for each in self.askable(kind)
        }
        return routes | self._former_of_renamed(sids - {self.sid}) if kind is Kind.TOOL else routes

    def _former_of_renamed(self, sids: Iterable[str]) -> dict[str, Route]:
        """Routes of the names that renamed tools have by themselves, and of their new ones under former names."""
        routes = {}
        for each in self.askable(Kind.TOOL):
            if (before := self._renamed.get(each.visible)) is not None:
                new = each.visible.removeprefix(f"{self.sid}__")
                for name in (before, *(f"{sid}__{new}" for sid in sids)):
                    routes[name] = self.route_of(Kind.TOOL, each.original)
        return routes

    def entries(self, kind: Kind, *, ui: bool, hidden: frozenset[str] = NOTHING) -> Sequence[VisibleEntry]:
        """The entries for hosts with or without user interfaces, but for those whose visible name is `hidden`."""
        shown = self.shown[kind]
        if kind is Kind.TOOL and ui and self.apps:
            shown = (*shown, *self.apps)
        if hidden or (not ui and kind is Kind.TOOL and self.varies):
            return [each for each in shown if each.visible not in hidden and (ui or not each.app_only)]
        return shown

    def chunk(self, kind: Kind, host_version: str, *, ui: bool, hidden: frozenset[str] = NOTHING) -> bytes:
        """`entries` as JSON on one line, items separated by commas; kept for the next times."""
        chunks = self._chunks.setdefault((kind, host_version, ui), {})
        chunk = chunks.pop(hidden, None)
        if chunk is None:
            shown = self.entries(kind, ui=ui, hidden=hidden)
            chunk = byte_checks.one_line(b",".join([self.encode(kind, host_version, each, ui=ui) for each in shown]))
            # Most revisions see the same: keep the bytes once.
            known = (other for each in self._chunks.values() for other in each.values() if other == chunk)
            chunk = next(known, chunk)
            if len(chunks) >= MAX_CHUNKS:  # what is hidden here is for servers before this one to say, again and again
                del chunks[next(iter(chunks))]
        chunks[hidden] = chunk
        return chunk

    def tool_bytes(self, hidden: frozenset[str] = NOTHING) -> Mapping[str, int]:
        """By visible name, the size of each tool that the model may see, for its cost in tokens; counted once."""
        if self._tool_bytes is None:
            shown = self.entries(Kind.TOOL, ui=False)
            self._tool_bytes = {each.visible: tool_bytes(each.visible, each.fields) for each in shown}
        if not hidden:
            return self._tool_bytes
        return {name: size for name, size in self._tool_bytes.items() if name not in hidden}

    def encode(self, kind: Kind, host_version: str, shown: VisibleEntry, *, ui: bool = False) -> bytes:
        """One entry as JSON, with the hub's own `_meta`."""
        fields = shown.fields
        if self._identity and shown.asks:
            meta = {**peek_object(fields.get("_meta")), mcp.HUB_POLICY: _ASK}
            fields = {**fields, "_meta": raw(meta)}
        elif not self._identity:
            known = peek_object(fields.get("_meta")).items()
            meta = {name: value for name, value in known if not name.startswith(mcp.HUB_PREFIX)}
            if shown.asks:
                meta[mcp.HUB_POLICY] = _ASK
            meta[mcp.HUB_SERVER] = raw(self.name)
            if kind not in NAME_KINDS:
                if shown.visible != shown.original:
                    meta[mcp.HUB_ORIGINAL_URI] = raw(shown.original)
            elif shown.visible != (shown.original if self._bare else f"{self.sid}__{shown.original}"):
                meta[mcp.HUB_ORIGINAL_NAME] = raw(shown.original)
            if ui and kind is Kind.TOOL and not self._bare and (shown.is_alias or not shown.app_only):
                audience = _APP if shown.is_alias else _MODEL
                meta["ui"] = raw({**peek_object(meta.get("ui")), "visibility": [audience]})
            fields = {**fields, mcp.IDENTIFIER[kind]: raw(shown.visible), "_meta": raw(meta)}
        return encode(entry_for_host(kind, fields, host_version))

    # --- made once per snapshot ---

    def _all_shown(self) -> Steps[dict[Kind, tuple[VisibleEntry, ...]]]:
        entries = {kind: self._distinct(kind) for kind in Kind}
        names = {kind: [entry.key for entry in its] for kind, its in entries.items()}
        if not self._bare:
            names[Kind.TOOL] = yield from self._visible_names("tool", names[Kind.TOOL])
            names[Kind.PROMPT] = yield from self._visible_names("prompt", names[Kind.PROMPT])
        if self.rule.rename:
            names[Kind.TOOL] = self._rename(names[Kind.TOOL], [entry.key for entry in entries[Kind.TOOL]])
        if not self._identity:
            uris, templates = self.claims.relist(self.name, names[Kind.RESOURCE], names[Kind.TEMPLATE])
            names[Kind.RESOURCE], names[Kind.TEMPLATE] = uris, templates
        shown: dict[Kind, tuple[VisibleEntry, ...]] = dict.fromkeys(Kind, ())
        for kind in filter(names.get, Kind):
            shown[kind] = yield from self._make_visible(kind, names[kind], entries[kind])
        return shown

    def _rename(self, names: Sequence[str], originals: Sequence[str]) -> list[str]:
        wanted = {own: self.with_prefix(new) for own, new in self.rule.rename}
        new, warnings = rename(names, originals, wanted, self.budget)
        self.warnings += [f"{self.name}: {warning}" for warning in warnings]
        self._renamed = {name: before for name, before in zip(new, names, strict=True) if name != before}
        has = dict(zip(originals, new, strict=True))
        self.contested = {own: name for own, name in wanted.items() if has.get(own, name) != name}
        return new

    def _distinct(self, kind: Kind) -> list[ListEntry]:
        """The entries of a list that hosts may see; of those with one name, the first."""
        entries = self.snapshot.lists.get(kind, ())
        if kind is Kind.TOOL and self.rule.sign_in is SignInTool.LISTED:
            return [sign_in_tool(self.name)]
        if kind is Kind.TOOL and self.rule.tools != ALL:
            chosen = NameChoice(self.rule.tools)
            entries = tuple(entry for entry in entries if entry.key in chosen)
        distinct = {entry.key: entry for entry in reversed(entries)}
        if len(distinct) == len(entries):
            return list(entries)
        self.warnings.append(f"{self.name}: lists the same {kind.value} more than once; the first of each is used")
        return [entry for entry in entries if distinct[entry.key] is entry]

    def _visible_names(self, kind: NameKind, originals: Sequence[str]) -> Steps[list[str]]:
        sid, budget = self.sid, self.budget
        names = yield from map_in_steps(lambda original: visible_name(kind, sid, original, budget), originals)
        if len(set(names)) == len(names):
            return names
        counts = Counter(names)
        return [  # two changed names with one hash: both get a longer one
            name if counts[name] == 1 else visible_name(kind, sid, original, budget, digits=16)
            for name, original in zip(names, originals, strict=True)
        ]

    def _make_visible(
        self, kind: Kind, names: Sequence[str], entries: Sequence[ListEntry]
    ) -> Steps[tuple[VisibleEntry, ...]]:
        shown: dict[str, VisibleEntry] = {}
        left_out: list[str] = []
        reserved: list[str] = []
        taken: list[str] = []
        descriptions = dict(self.rule.describe)
        changes = kind is Kind.TOOL and (self.rule.describe or self.rule.rename)
        hints = self.rule.hints if kind is Kind.TOOL else ()
        for at, (name, entry) in enumerate(zip(names, entries, strict=True), 1):
            if not at % STEP:
                yield STEP
            fields, app_only = entry.fields, False
            if kind is Kind.TOOL and name.startswith(mcp.HUB_TOOLS) and not self._identity:
                reserved.append(entry.key)
                continue
            if kind in NAME_KINDS and name.startswith(self.rule.taken) and not self._identity:
                taken.append(entry.key)
                continue
            if changes and (text := descriptions.get(entry.key)) is not None:
                fields = {**fields, "description": raw(text)}
            if changes and fields.get("name") != raw(name):
                fields = {**fields, "name": raw(name)}
            if hints:
                fields = with_hints(fields, entry.key, hints)
            if kind is Kind.TOOL and self.rule.accounts:
                fields = self._with_account(entry.key, fields)
            if kind is Kind.TOOL and self.rule.cuts_results and not self._identity:
                fields = without_output(fields)
            if (meta := fields.get("_meta")) is not None:
                app_only = kind is Kind.TOOL and not _is_for(_MODEL, meta)
                if not self._identity:
                    if app_only and not self.rule.apps:
                        continue
                    fields = {**fields, "_meta": self._meta(meta)}
            if name in shown:  # only by an upstream that has searched for it
                left_out.append(entry.key)
                continue
            shown[name] = VisibleEntry(name, entry.key, fields, app_only)
        if left_out:
            self.warnings.append(f"{self.name}: left out, their visible names are taken: {quote_some(left_out)}")
        if taken:
            text = f"{self.name}: left out, since they are called as if they were of another server"
            self.warnings.append(f"{text}: {quote_some(taken)}; a prefix gives them other names")
        if reserved:
            self.warnings.append(f"{_warn_of_reserved(self.name, reserved)}; a prefix gives them other names")
        return tuple(shown.values())

    def _with_account(self, tool: str, fields: dict[str, Raw]) -> dict[str, Raw]:
        argument = argument_of(fields.get("inputSchema"), self.rule.accounts)
        if argument is None or self.rule.sign_in is SignInTool.LISTED:
            return fields
        if self.rule.account:
            self.accounts[tool] = argument.decide(self.rule.account_by)
            return fields
        self.accounts[tool] = argument
        return {**fields, "inputSchema": with_argument(argument)}

    def _all_mirrors(self) -> Steps[dict[str, tuple[Mirror, ...]]]:
        like, self._like = self._like, None  # it is not kept alive
        known: dict[int, tuple[Mirror, ...]] = {}
        if like is not None:
            pairs = ((each.fields.get("inputSchema"), each.visible) for each in like.shown[Kind.TOOL])
            known = {id(schema): like.mirrors.get(name, ()) for schema, name in pairs}

        def find(tool: VisibleEntry) -> tuple[Mirror, ...]:
            schema = tool.fields.get("inputSchema")
            if (mirrors := known.get(id(schema))) is not None:
                return mirrors
            try:
                return mirrors_of(EMPTY if schema is None else schema)
            except InvalidMirror:
                return ()

        tools = self.shown[Kind.TOOL]
        found = yield from map_in_steps(find, tools)
        return {each.visible: mirrors for each, mirrors in zip(tools, found, strict=True) if mirrors}

    def _for_views(self) -> tuple[VisibleEntry, ...]:
        tools = {
            each.original: VisibleEntry(each.original, each.original, each.fields, app_only=True, is_alias=True)
            for each in self.shown[Kind.TOOL]
            if _is_for(_APP, each.fields.get("_meta")) and each.original != each.visible
        }
        if reserved := [name for name in tools if name.startswith(mcp.HUB_TOOLS)]:
            self.warnings.append(f"{_warn_of_reserved(self.name, reserved)}; its user interfaces cannot call them")
        return tuple(each for name, each in tools.items() if not name.startswith(mcp.HUB_TOOLS))

    def _meta(self, meta: Raw) -> Raw:
        """`_meta` of an entry with the visible URI of its user interface; for upstreams without `apps`, none."""
        fields = peek_object(meta)
        if not any(key in fields for key in UI_KEYS):
            return meta
        if not self.rule.apps:
            return raw({name: value for name, value in fields.items() if name not in UI_KEYS})
        return localise_meta(meta, lambda uri: self.claims.emit(self.name, uri))


def _is_for(audience: Raw, meta: Raw | None) -> bool:
    """True if a tool with this `_meta` is for the model or for user interfaces: for both, unless it says otherwise."""
    found = peek_object(peek_object(meta).get("ui")).get("visibility")
    return found is None or audience in peek_array(found)


def _warn_of_reserved(upstream: str, names: Sequence[str]) -> str:
    return f"{upstream}: left out, since names that begin with {mcp.HUB_TOOLS} are the hub's: {quote_some(names)}"
