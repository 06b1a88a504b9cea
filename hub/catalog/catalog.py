"""Catalogue of one view: the lists its hosts are shown, and the way from each visible name or URI back to its owner.

Made by `hub.catalog.merge_catalog` of the upstreams' snapshots, or by `hub.catalog.profiles` of another catalogue; a
change anywhere makes a new one. The entries of one upstream are kept in its `UpstreamEntries`, which are taken over
while its snapshot is the same; they are encoded when a list is first asked for, once per revision of hosts.

A name that two upstreams show belongs to the first one, and the other's entry is hidden. Former names, bare names for
user interfaces, and the tools for signing in lead to their owners, too, where no entry has the name.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING

from msgspec import Struct

from config.loading.split_accounts import running_as
from config.profile_settings import Profile
from config.server_names import server_of
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.instructions import ServerWords, instructions, offer_of
from hub.catalog.list_result import Cursors, Ttl, freshness_of, list_result
from hub.catalog.profiles.unmatched_names import ProfileDoubts
from hub.catalog.rewrite_embedded_uris import Change, identity
from hub.catalog.search.index import SearchIndex
from hub.catalog.search.meta_tools import HubTools, meta_tools
from hub.catalog.token_cost import ShownCost, TokenCost, cost_of, cost_of_view
from hub.catalog.upstream_entries import NAME_KINDS, NOTHING, Route, UpstreamEntries, VisibleEntry
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, quote_some
from hub.link.sealing import Sealer
from hub.wire.byte_checks import one_line
from hub.wire.http.mirror_headers import Mirror
from hub.wire.hub_chains import EXPERIMENTAL, join_chains, read_chain
from hub.wire.jsonrpc import PiecedResult, encode
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.current_lists import in_full

if TYPE_CHECKING:
    from hub.catalog.pipelines.pipeline_tools import HiddenPipeline, ShownPipeline


class NameTable:
    """The way from each visible name or URI to its owner. Never changes. `warnings` are sentences for the operator."""

    def __init__(self, parts: Sequence[UpstreamEntries], chosen_from: "NameTable | None" = None) -> None:
        """`chosen_from`: the table of the view that a profile chose `parts` from, which has told its own warnings."""
        self._parts = tuple(parts)
        self._routes: dict[Kind, dict[str, Route]] = {}
        self._hidden: dict[tuple[Kind, str], frozenset[str]] = {}
        """By kind and upstream: visible names that an earlier upstream has already."""
        self._told = {} if chosen_from is None else chosen_from._hidden
        self.warnings = tuple(warning for kind in Kind for warning in self._lay_out(kind))
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}
        for part in reversed(self._parts):  # of one name, the first one's
            self._mirrors.update(part.mirrors)

    def route(self, kind: Kind, visible: str) -> Route | None:
        """The upstream whose entry is listed as `visible`, or was under a former name of the upstream."""
        return self._routes[kind].get(visible)

    def mirrors(self, visible: str) -> tuple[Mirror, ...]:
        """The arguments of a tool that a modern host repeats in headers."""
        return self._mirrors.get(visible, ())

    def names_left_out(self, kind: Kind, upstream: str) -> frozenset[str]:
        """Visible names of an upstream's entries that are not listed."""
        return self._hidden.get((kind, upstream), NOTHING)

    def entries_of(self, kind: Kind, part: UpstreamEntries, *, ui: bool) -> Sequence[VisibleEntry]:
        """The entries of an upstream that are listed, for hosts with or without user interfaces."""
        return part.entries(kind, ui=ui, hidden=self.names_left_out(kind, part.name))

    def without(self, tools: Mapping[str, frozenset[str]]) -> "NameTable":
        """The same, but that these tools are not listed, by upstream; they can be called."""
        found = copy(self)
        found._hidden = dict(self._hidden)
        for upstream, names in tools.items():
            found._hidden[Kind.TOOL, upstream] = self.names_left_out(Kind.TOOL, upstream) | names
        return found

    def _lay_out(self, kind: Kind) -> Iterator[str]:
        """Fill the table of `kind`. A name that two upstreams show belongs to the first; yields warnings about that,
        but for names that were told."""
        routes = self._routes[kind] = {}
        for part in self._parts:
            if (new := self._add(kind, part, part.routes[kind])) and kind in NAME_KINDS:
                yield f"{part.name}: left out, because an earlier upstream has the name: {quote_some(new)}"
        for part in self._parts:
            for name, route in part.former(kind).items():
                routes.setdefault(name, route)
        if kind is not Kind.TOOL:
            return
        for part in self._parts:  # user interfaces reach their tools by bare names
            if new := self._add(kind, part, {each.visible: part.route_of(kind, each.visible) for each in part.apps}):
                why = "its user interfaces cannot call these tools here, because another has the name"
                yield f"{part.name}: {why}: {quote_some(new)}; use the endpoint /mcp/{part.name}"
        for part in self._parts:
            for name, route in part.route_of_sign_in.items():
                routes.setdefault(name, route)

    def _add(self, kind: Kind, part: UpstreamEntries, mine: Mapping[str, Route]) -> list[str]:
        """Add routes of an upstream, but for names that are taken; the names among these that were not told."""
        routes = self._routes[kind]
        taken = frozenset(routes.keys() & mine.keys())
        routes.update((name, route) for name, route in mine.items() if name not in taken)
        if taken:
            self._hidden[kind, part.name] = self.names_left_out(kind, part.name) | taken
        return sorted(taken - self._told.get((kind, part.name), NOTHING))


class Making(Struct, frozen=True):
    """The things that a catalogue is made with, beside entries."""

    rules: Rules
    claims: UriClaims
    sealer: Sealer
    """Seals cursors."""
    settling: bool = False
    """Some upstreams are still to come."""
    heard: Collection[str] = ()
    """Upstreams whose tools are known."""


class Catalog:
    """Snapshot of what one view shows. Never changes, but for what it remembers in order to answer faster. `warnings`
    are sentences for the operator."""

    def __init__(
        self,
        parts: Sequence[UpstreamEntries],
        names: NameTable,
        making: Making,
        *,
        view: View = EVERYTHING,
        varies: bool = False,
        profile: Profile | None = None,
        doubts: ProfileDoubts | None = None,
        warnings: Iterable[str] = (),
        permits: Callable[[Route], bool] | None = None,
        pipelines: "Iterable[ShownPipeline]" = (),
        hidden_pipelines: "Iterable[HiddenPipeline]" = (),
        optional: Iterable[ListEntry] = (),
    ) -> None:
        """`names` are those of `parts`; `profile`: what chose them, and `doubts` about that. `permits` tells whether
        there is a resource for those whom this is for, listed or not; None: every resource is for all."""
        self.profile = profile
        self.doubts = doubts
        self._permits = permits
        self.names = names
        self.route = names.route
        self.making = making
        self.parts = tuple(parts)
        """The entries of each upstream."""
        self.accounts = {
            part.name: running_as(part.name, part.rule.accounts, part.account or part.rule.accounts[0])
            for part in parts
            if part.rule.accounts
        }
        """Of servers with several accounts, the name that the one runs under which serves what names none."""
        self.view = view
        self._claims = making.claims
        self._varies = varies
        self._emitters: dict[str, Change] = {}
        self._digests: dict[Kind, str] = {}
        self.index: SearchIndex | None = None
        """The index of its tools, once somebody has searched."""
        self._whole = self
        """The catalogue in which its tools are found: another one, where those for finding are shown in their place."""
        self.pipelines = {each.name: each for each in pipelines}
        """Tools of the hub's own that call others, by name."""
        self.hidden_pipelines = {each.name: each for each in hidden_pipelines}
        """Those that would be there, but for a reason that hosts may be told."""
        self.optional = {each.key: each for each in optional}
        """Further ones, by name, that are there for its hosts."""
        own = *(each.entry for each in self.pipelines.values()), *self.optional.values()
        self._own = HubTools(own) if own else None
        self.warnings = tuple(warnings)
        self.behind = join_chains(read_chain(part.snapshot.capabilities.get(EXPERIMENTAL)) for part in parts)
        """Hubs among the upstreams, and the hubs behind these."""

    def decides_account(self, upstream: str) -> bool:
        """True if hosts may not choose among the accounts at an upstream."""
        return any(part.account for part in self.parts if part.name == upstream)

    def suspect(self, visible: str) -> str | None:
        """The upstream that an unknown name would belong to; its list is read again before the host is refused."""
        return {part.sid: part.name for part in self.parts if part.rule.prefix != ""}.get(visible.partition("__")[0])

    def resolve_uri(self, uri: str) -> list[Route]:
        """The upstreams that may be asked for `uri`, listed or not, best first."""
        if self.view.server:
            routes = [Route(self.view.server, uri)]
        else:
            present = {part.name for part in self.parts}
            routes = [Route(name, original) for name, original in self._claims.resolve(uri) if name in present]
        return routes if self._permits is None else [*filter(self._permits, routes)]

    def emitter(self, upstream: str, asked: str | None = None) -> Change:
        """The change that makes URIs in a result of `upstream` visible ones: for `localise`. The URI that a read
        `asked` for comes back in just that form."""
        upstream = server_of(upstream)
        if self.view.server:
            return identity
        if asked is not None:
            original = self._claims.untag(upstream, asked)
            return lambda uri: asked if uri == original else self._claims.emit(upstream, uri)
        return self._emitters.setdefault(upstream, partial(self._claims.emit, upstream))

    def untagger(self, upstream: str) -> Change:
        """The change that makes visible URIs in arguments the upstream's own: for `untag_arguments`."""
        return identity if self.view.server else partial(self._claims.untag, upstream)

    def page(
        self, kind: Kind, version: str, cursor: str | None, ui: bool = False, principal: str = "", ttl_ms: Ttl = in_full
    ) -> PiecedResult:
        """The result of a list request for hosts of this `version`; `ui`: they declared the apps extension.
        Raises: RemoteProtocolError, -32602, if `cursor` is not of this list, or not this principal's."""
        following = None
        if not self.making.rules.page_size and cursor is None:
            hidden = self.names.names_left_out
            items = [part.chunk(kind, version, ui=ui, hidden=hidden(kind, part.name)) for part in self.parts]
            if self._own is not None and kind is Kind.TOOL:
                items.insert(0, self._own.chunk(kind, version))
        else:
            entries = [(part, shown) for part, its in self._entries(kind, ui=ui) for shown in its]
            cursors = Cursors(self.making.sealer, kind, principal, [shown.visible for _, shown in entries])
            start = 0 if cursor is None else cursors.offset(cursor)
            end = start + (self.making.rules.page_size or len(entries))
            page = b",".join([part.encode(kind, version, shown, ui=ui) for part, shown in entries[start:end]])
            items = [one_line(page)]
            following = cursors.cursor(end) if end < len(entries) else None
        fresh = freshness_of(self.parts, kind, ttl_ms, settling=self.making.settling, varies=self._varies)
        return list_result(kind, version, items, fresh, behind=self.behind, cursor=following)

    def differs(self, other: "Catalog", kind: Kind) -> bool:
        """True if hosts see another list than in `other`."""
        return self._texts_of(kind) != other._texts_of(kind)

    def digest(self, kind: Kind) -> str:
        """Digest of a list as hosts see it, comparable between runs of the hub."""
        if kind not in self._digests:
            found = sha256()
            for each in chain.from_iterable(self._texts_of(kind)):
                found.update(encode(each))
            self._digests[kind] = found.hexdigest()[:32]
        return self._digests[kind]

    def _texts_of(self, kind: Kind) -> list[Sequence[object]]:
        return [(part.name, *shown) for part, shown in self._entries(kind, ui=True) if shown]

    def _entries(self, kind: Kind, *, ui: bool) -> list[tuple[UpstreamEntries | HubTools, Sequence[VisibleEntry]]]:
        own = [(self._own, self._own.shown)] if self._own is not None and kind is Kind.TOOL else []
        return [*own, *((part, self.names.entries_of(kind, part, ui=ui)) for part in self.parts)]

    def select(
        self,
        view: View,
        choose: Callable[[str, Kind, VisibleEntry], VisibleEntry | None],
        permits: Callable[[Route], bool],
        asks_about: "Callable[[ShownPipeline | HiddenPipeline], bool | None]",
    ) -> "Catalog":
        """The catalogue of `view`: the same, but of the entries of each upstream what `choose` makes of them.
        `asks_about` tells of pipelines whether a person is asked before they are carried out; None: they are denied."""
        parts = [part.select(partial(choose, part.name)) for part in self.parts]
        is_same = all(map(is_, parts, self.parts))
        names = self.names if is_same else NameTable(parts, chosen_from=self.names)
        return Catalog(
            parts,
            names,
            self.making,
            view=view,
            varies=True,
            profile=self.profile,
            doubts=self.doubts,
            permits=permits,
            pipelines=[
                each.mark_as_asking() if asks else each
                for each in self.pipelines.values()
                if (asks := asks_about(each)) is not None
            ],
            hidden_pipelines=[each for each in self.hidden_pipelines.values() if asks_about(each) is not None],
            optional=self.optional.values(),
        )

    def in_search_mode(self, view: View, always: Collection[str]) -> "Catalog":
        """The catalogue of `view`: the same, but of its tools those for finding and calling the others are listed, and
        the `always` ones. All can be called."""
        found = copy(self)
        reads = any(part.only_reads(each) for part, shown in self.findable() for each in shown)
        own = *(each.entry for each in self.pipelines.values()), *self.optional.values()
        found._own = HubTools((*meta_tools(self.tool_counts(), reads=reads), *own))
        found.view, found.index = view, None
        found._whole, found._digests, found._varies = self, {}, True
        for counted in ("costs", "shown_cost"):
            vars(found).pop(counted, None)
        found.names = self.names.without(
            {
                part.name: frozenset(each.visible for each in shown if each.visible not in always)
                for part, shown in self.findable()
            }
        )
        return found

    def keep_index(self, index: SearchIndex) -> None:
        """Keep the index of what can be found here, for the next search."""
        self.index = index

    def findable(self) -> Iterator[tuple[UpstreamEntries, Sequence[VisibleEntry]]]:
        """The tools that a model may find here, by upstream."""
        whole = self._whole
        for part in whole.parts:
            yield part, whole.names.entries_of(Kind.TOOL, part, ui=False)

    def tool_counts(self) -> dict[str, int]:
        """By what begins the names of a server's tools, how many of them can be found."""
        return {part.server_id: len(shown) for part, shown in self.findable() if shown}

    def part(self, upstream: str) -> UpstreamEntries | None:
        """The entries of an upstream."""
        return next((part for part in self.parts if part.name == upstream), None)

    @property
    def always(self) -> frozenset[str]:
        """Visible names of the tools that are shown in search mode, too."""
        return NOTHING.union(*(part.always - self.names.names_left_out(Kind.TOOL, part.name) for part in self.parts))

    def of_server(self, view: View, part: UpstreamEntries | None) -> "Catalog":
        """The catalogue of the one server that `view` shows, of its entries in their own scope; None: an empty one."""
        parts = [] if part is None else [part]
        return Catalog(parts, NameTable(parts), self.making, view=view)

    def _sizes(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """By upstream, the sizes of its tools that a model is shown; first those of the hub's own."""
        if self._own is not None:
            yield self._own.name, self._own.tool_bytes()
        for part in self.parts:
            yield part.name, part.tool_bytes(self.names.names_left_out(Kind.TOOL, part.name))

    @cached_property
    def costs(self) -> Mapping[str, TokenCost]:
        """By upstream, the cost of its tools for a model, and that of the hub's own; counted when first asked for."""
        return {name: cost_of(sizes) for name, sizes in self._sizes()}

    def tool_bytes(self) -> Iterator[tuple[str, int]]:
        """The visible name and the size of each tool that a model is shown."""
        return chain.from_iterable(sizes.items() for _, sizes in self._sizes())

    @cached_property
    def shown_cost(self) -> ShownCost:
        """The cost of all that a host is shown by it."""
        return cost_of_view((size for _, size in self.tool_bytes()), self.instructions)

    @cached_property
    def instructions(self) -> str:
        """Text for the model: what the profile says, a line for each upstream, and what they say, each under its title
        and the prefix of its tools, since they use their own names of tools; of one upstream alone, its very words."""
        if self.view.server:
            shown = (part for part in self.parts if not self.view.audience or any(part.shown.values()))
            return "".join(part.snapshot.instructions.strip() for part in shown)
        return instructions("" if self.profile is None else self.profile.instructions, list(self._words()))

    def _words(self) -> Iterator[ServerWords]:
        """The words about each server that offers or says something; in a profile, if it shows something of it."""
        tools = {part.name: len(shown) for part, shown in self.findable()}
        for part in self.parts:
            counts = {kind: len(part.shown[kind]) for kind in Kind} | {Kind.TOOL: tools[part.name]}
            if (self.profile is not None or self.view.audience) and not any(counts.values()):
                continue
            offers, text = offer_of(counts), part.snapshot.instructions
            if offers or text.strip():
                prefix = "" if part.rule.prefix == "" else f"{part.sid}__*"
                yield ServerWords(prefix, part.name, part.title, offers, text)
