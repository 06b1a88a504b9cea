"""Catalogue of one view: the lists its hosts are shown, and the way from each visible name or URI back to its owner.

`merge` makes a `Catalog` of the upstreams' snapshots; a change anywhere makes a new one. Entries come in the order of
the configuration, then in the upstream's own, so the same entries make the same lists whoever connected first. The
entries of one upstream are kept in its `UpstreamEntries` and taken over while its snapshot is the same; they are
encoded when a list is first asked for, once per revision of hosts.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct, structs

from config.profile_settings import Profile
from hub.catalog.chosen_entries import ChosenEntries, choose_part, rename_parts
from hub.catalog.entries import NAME_KINDS, NOTHING, Route, UpstreamEntries, UpstreamRule, VisibleEntry, quote_some
from hub.catalog.instructions import ServerWords, instructions
from hub.catalog.profile_rules import ProfileRules
from hub.catalog.rewrite import Change, unchanged
from hub.catalog.search.hub_tools import HubTools
from hub.catalog.search.index import SearchIndex
from hub.catalog.search.meta_tools import meta_tools, only_reads
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.token_cost import ShownCost, TokenCost, cost_of, shown_cost
from hub.catalog.unmatched import KnownTools, ProfileDoubts, doubts_of_profile, doubts_of_upstream
from hub.catalog.uri_claims import UriClaims
from hub.catalog.view import EVERYTHING, View
from hub.link.sealing import InvalidSeal, Sealer, load_keys
from hub.wire.http.mcp_headers import Mirror
from hub.wire.hub_loops import EXPERIMENTAL, announcement, join_chains, read_chain
from hub.wire.jsonrpc import RemoteProtocolError, encode
from hub.wire.mcp import (
    CAPABILITY,
    HUB_INFO,
    INVALID_PARAMS,
    SERVER_INFO_KEY,
    Era,
    Kind,
    Snapshot,
    era_of,
)
from upstreams.inventory.freshness import in_full

SETTLING_TTL_MS: Final = 1_000
"""Milliseconds for which a list is good while some upstreams have not reported yet."""
SIGN_IN_TTL_MS: Final = 15_000
"""The same while some upstream shows a tool for signing in, which a person may do at any moment."""
MAX_TTL_MS: Final = 300_000

_SERVER_INFO = encode({SERVER_INFO_KEY: HUB_INFO})[1:-1]


T = TypeVar("T")
Ttl = Callable[[Snapshot, Kind], int]
"""Milliseconds for which hosts need not ask again for the list of one upstream."""


class Rules(Struct, frozen=True):
    """Naming rules of a configuration, upstreams in its order."""

    upstreams: tuple[UpstreamRule, ...]
    budget: int = 50
    """Characters of a visible name."""
    page_size: int = 0
    """Entries per page of a list; 0: all in one page."""
    profiles: Mapping[str, Profile] = {}
    """What some hosts are shown of all servers, by the name of the profile."""


def merge_in_steps(
    snapshots: Iterable[Snapshot],
    rules: Rules,
    claims: UriClaims,
    *,
    sealer: Sealer | None = None,
    view: View = EVERYTHING,
    settling: bool = False,
    provisional: bool = False,
    varies: bool = False,
    heard: Collection[str] = (),
    previous: "Catalog | None" = None,
) -> Generator[int, None, "Catalog"]:
    """The catalogue of `snapshots`; those of upstreams without a rule are left out.

    `claims` learns the configuration and every listed URI. `provisional` keeps listed URIs from being claimed: for
    catalogues made before all upstreams had their chance, so that claims go by configuration order and not by arrival.
    `settling` says that upstreams are still to come; `heard` are those whose tools are known, so that settings which
    name others can be doubted; `previous` saves work. Without a `sealer`,
    cursors end with this catalogue. Pauses after each upstream, and yields the number of its entries.
    """
    claims.configure(
        [rule.name for rule in rules.upstreams],
        aliases={alias: rule.name for rule in rules.upstreams for alias in rule.aliases},
        bare=next((rule.name for rule in rules.upstreams if rule.prefix == ""), None),
    )
    by_name = {snapshot.upstream: snapshot for snapshot in snapshots}
    present = [(rule, by_name[rule.name]) for rule in rules.upstreams if rule.name in by_name]
    for rule, snapshot in present:
        claims.locate(rule.name, local=snapshot.local)
    listing = claims.copy() if provisional else claims
    known = {} if previous is None else {part.name: part for part in previous.parts}
    merged: list[UpstreamEntries] = []
    for rule, snapshot in present:
        part = known.get(rule.name)
        if part is None or not part.still_right(snapshot, rule, rules.budget, listing):
            part = UpstreamEntries(snapshot, rule, rules.budget, listing)
            yield sum(map(len, part.shown.values()))
        if part.doubts is None and part.name in heard:
            part.doubts = yield from doubts_of_upstream(part)
        merged.append(part)
    return Catalog(
        merged,
        rules,
        claims,
        sealer or Sealer(load_keys(None)),
        settling=settling,
        view=view,
        varies=varies,
        heard=heard,
        warnings=[doubt for part in merged if part.name in heard for doubt in part.doubts or ()],
    )


def next_of(steps: Generator[int, None, T]) -> int | T:
    """What the next step looked at; after the last one the result."""
    try:
        return next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def finish(steps: Generator[int, None, T]) -> T:
    """Run all steps of something without a pause; the result."""
    while True:
        step = next_of(steps)
        if not isinstance(step, int):
            return step


def merge(snapshots: Iterable[Snapshot], rules: Rules, claims: UriClaims, **options: Any) -> "Catalog":
    """`merge_in_steps` without a pause."""
    return finish(merge_in_steps(snapshots, rules, claims, **options))


class Catalog:
    """Snapshot of what one view shows. Never changes, but for what it remembers in order to answer faster.

    `warnings` are sentences for the operator.
    """

    def __init__(
        self,
        parts: Sequence[UpstreamEntries],
        rules: Rules,
        claims: UriClaims,
        sealer: Sealer,
        *,
        settling: bool = False,
        view: View = EVERYTHING,
        varies: bool = False,
        profile: Profile | None = None,
        chosen_from: "Catalog | None" = None,
        heard: Collection[str] = (),
        doubts: ProfileDoubts | None = None,
        warnings: Iterable[str] = (),
    ) -> None:
        """`profile`: what chose the parts, `chosen_from` another catalogue, which has told its own warnings; `warnings`
        are further ones."""
        self.profile = profile
        self._heard = heard
        """Upstreams whose tools are known."""
        self._doubts = doubts
        self.parts = tuple(parts)
        """The entries of each upstream."""
        self.view = view
        self._rules, self._claims, self._sealer, self._settling = rules, claims, sealer, settling
        self._varies = varies
        self._emitters: dict[str, Change] = {}
        self._instructions: str | None = None
        self._costs: Mapping[str, TokenCost] | None = None
        self._shown_cost: ShownCost | None = None
        self._digests: dict[Kind, str] = {}
        self._routes: dict[Kind, dict[str, Route]] = {}
        self.index: SearchIndex | None = None
        """The index of its tools, once somebody has searched."""
        self._whole = self
        """What its tools are found in: another catalogue, where those for finding are shown in their place."""
        self._own: HubTools | None = None
        self._hidden: dict[tuple[Kind, str], frozenset[str]] = {}
        """By kind and upstream: visible names that an earlier upstream has already."""
        found = [*warnings, *(warning for part in parts for warning in part.warnings)]
        told = {} if chosen_from is None else chosen_from._hidden
        where = "" if profile is None else f"profile {view.profile}: "
        for kind in Kind:
            found += [where + warning for warning in self._lay_out(kind, told)]
        if profile is not None and profile.max_tools is not None:
            found += self._too_many(profile.max_tools)
        self.warnings = tuple(found)
        self.behind = join_chains(read_chain(part.snapshot.capabilities.get(EXPERIMENTAL)) for part in parts)
        """Hubs among the upstreams, and the hubs behind these."""
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}
        for part in reversed(self.parts):  # of one name, the first one's
            self._mirrors.update(part.mirrors)

    def _lay_out(self, kind: Kind, told: Mapping[tuple[Kind, str], frozenset[str]]) -> Iterator[str]:
        """Fill the table of `kind`. A name that two upstreams show belongs to the first; yields warnings about that,
        but for names that were `told`."""
        routes = self._routes[kind] = {}
        for part in self.parts:
            taken = frozenset(routes.keys() & part.routes[kind].keys())
            routes.update((name, route) for name, route in part.routes[kind].items() if name not in taken)
            if taken:
                self._hidden[kind, part.name] = taken
            if (new := taken - told.get((kind, part.name), NOTHING)) and kind in NAME_KINDS:
                yield f"{part.name}: left out, because an earlier upstream has the name: {quote_some(sorted(new))}"
        for part in self.parts:
            for name, route in part.former(kind).items():
                routes.setdefault(name, route)
        if kind is Kind.TOOL:
            yield from self._lay_out_apps(routes, told)
            for part in self.parts:
                for name, route in part.route_of_sign_in.items():
                    routes.setdefault(name, route)

    def _too_many(self, most: int) -> Iterator[str]:
        count = sum(
            len(part.entries(Kind.TOOL, ui=False, hidden=self._hidden_of(Kind.TOOL, part))) for part in self.parts
        )
        if count > most:
            yield f"profile {self.view.profile}: shows {count} tools, and its max_tools is {most}; nothing is cut"

    def _lay_out_apps(self, routes: dict[str, Route], told: Mapping[tuple[Kind, str], frozenset[str]]) -> Iterator[str]:
        """Let user interfaces reach their tools by bare names, but for names that are taken."""
        for part in self.parts:
            names = {each.visible for each in part.apps}
            if taken := names & routes.keys():
                self._hidden[Kind.TOOL, part.name] = self._hidden_of(Kind.TOOL, part) | taken
            if new := taken - told.get((Kind.TOOL, part.name), NOTHING):
                yield (
                    f"{part.name}: its user interfaces cannot call these tools here, because another has the name: "
                    f"{quote_some(sorted(new))}; use the endpoint /mcp/{part.name}"
                )
            routes.update((name, part.route_of(Kind.TOOL, name)) for name in names - taken)

    def __repr__(self) -> str:
        counts = ", ".join(f"{sum(len(part.shown[kind]) for part in self.parts)} {kind.value}" for kind in Kind)
        return f"<Catalog {self.view.name or 'of ' + str(len(self.parts))}: {counts}>"

    # --- the way back ---

    def route(self, kind: Kind, visible: str) -> Route | None:
        """The upstream whose entry is listed as `visible`, or was under a former name of the upstream."""
        return self._routes[kind].get(visible)

    def mirrors(self, visible: str) -> tuple[Mirror, ...]:
        """The arguments of a tool that a modern host repeats in headers."""
        return self._mirrors.get(visible, ())

    def suspect(self, visible: str) -> str | None:
        """The upstream that an unknown name would belong to; its list is read again before the host is refused."""
        sids = {part.sid: part.name for part in self.parts if part.rule.prefix != ""}
        return sids.get(visible.partition("__")[0])

    def unprefixed(self) -> list[str]:
        """The upstreams whose names have no prefix: any unknown name may be theirs."""
        return [part.name for part in self.parts if part.rule.prefix == ""]

    def resolve_uri(self, uri: str) -> list[Route]:
        """The upstreams that may be asked for `uri`, listed or not, best first."""
        if self.view.server:
            return [Route(self.view.server, uri)]
        present = {part.name for part in self.parts}
        return [Route(name, original) for name, original in self._claims.resolve(uri) if name in present]

    def with_views(self) -> list[str]:
        """The upstreams whose user interfaces are shown."""
        return [part.name for part in self.parts if part.rule.apps]

    def emitter(self, upstream: str, asked: str | None = None) -> Change:
        """The change that makes URIs in a result of `upstream` visible ones: for `localise`.

        The URI that a read `asked` for comes back in just that form.
        """
        if self.view.server:
            return unchanged
        if asked is not None:
            original = self._claims.untag(upstream, asked)
            return lambda uri: asked if uri == original else self._claims.emit(upstream, uri)
        emit = self._emitters.get(upstream)
        if emit is None:
            emit = self._emitters[upstream] = partial(self._claims.emit, upstream)
        return emit

    def untagger(self, upstream: str) -> Change:
        """The change that makes visible URIs in arguments the upstream's own: for `untag_arguments`."""
        return unchanged if self.view.server else partial(self._claims.untag, upstream)

    # --- lists ---

    def page(
        self,
        kind: Kind,
        host_version: str,
        cursor: str | None,
        *,
        ui: bool = False,
        principal: str = "",
        ttl_ms: Ttl = in_full,
    ) -> Raw:
        """The result of a list request for hosts of `host_version`; `ui`: they declared the apps extension.

        Raises:
            RemoteProtocolError: -32602, when `cursor` is not of this list, or not this principal's.
        """
        if not self._rules.page_size and cursor is None:
            chunks = [part.chunk(kind, host_version, ui=ui, hidden=self._hidden_of(kind, part)) for part in self.parts]
            if self._own is not None and kind is Kind.TOOL:
                chunks.insert(0, self._own.chunk(kind, host_version))
            return self._result(kind, host_version, chunks, None, ttl_ms)
        entries = [(part, shown) for part, its in self._entries(kind, ui=ui) for shown in its]
        names = "\0".join([shown.visible for _, shown in entries])
        purpose = f"cursor\0{kind.value}\0{principal}\0{sha256(names.encode()).hexdigest()}"
        start = 0 if cursor is None else self._open_cursor(purpose, cursor)
        size = self._rules.page_size or len(entries)
        items = [part.encode(kind, host_version, shown, ui=ui) for part, shown in entries[start : start + size]]
        following = None
        if start + size < len(entries):
            following = self._sealer.seal(purpose, b"%d" % (start + size))
        return self._result(kind, host_version, items, following, ttl_ms)

    def _open_cursor(self, purpose: str, cursor: str) -> int:
        """The offset in a cursor. The list itself is part of its purpose, so that it ends when the list changes."""
        try:
            return int(self._sealer.open(purpose, cursor))
        except InvalidSeal:
            raise RemoteProtocolError(INVALID_PARAMS, "cursor expired, list again") from None

    def _result(self, kind: Kind, host_version: str, items: list[bytes], cursor: str | None, ttl_ms: Ttl) -> Raw:
        pieces = [b'{"%b":[' % kind.value.encode()]
        for item in filter(None, items):
            pieces += (item, b",")
        pieces[-1] = b"]" if len(pieces) > 1 else pieces[0] + b"]"
        if cursor is not None:
            pieces.append(b',"nextCursor":%b' % encode(cursor))
        meta = encode(announcement(self.behind))[1:-1] if self.behind else b""
        if era_of(host_version) is Era.MODERN:
            scope = b"public" if self._public(kind) else b"private"
            fresh = b',"resultType":"complete","ttlMs":%d,"cacheScope":"%b","_meta":{%b}'
            meta = b",".join(filter(None, (_SERVER_INFO, meta)))
            pieces.append(fresh % (self._ttl_ms(kind, ttl_ms), scope, meta))
        elif meta:
            pieces.append(b',"_meta":{%b}' % meta)
        pieces.append(b"}")
        return Raw(b"".join(pieces))

    def _ttl_ms(self, kind: Kind, ttl_ms: Ttl) -> int:
        """Milliseconds for which a modern host need not ask again."""
        most = SETTLING_TTL_MS if self._settling else MAX_TTL_MS
        if any(part.rule.sign_in is SignInTool.LISTED for part in self.parts):
            most = min(most, SIGN_IN_TTL_MS)
        return min([most, *(ttl_ms(part.snapshot, kind) for part in self.parts)])

    def _public(self, kind: Kind) -> bool:
        """True if the list is the same for everyone: by every contributing upstream, and by the hub's own views."""
        if self._varies:
            return False
        contributors = self._contributors(kind)
        fresh = [each.snapshot.freshness.get(kind) for each in contributors]
        modern = all(era_of(each.snapshot.version) is Era.MODERN for each in contributors)
        uniform = not any(each.varies for each in contributors)
        return bool(fresh) and modern and uniform and all(each is not None and each.public for each in fresh)

    def _contributors(self, kind: Kind) -> list[UpstreamEntries]:
        return [part for part in self.parts if CAPABILITY[kind] in part.snapshot.capabilities]

    def differs(self, other: "Catalog", kind: Kind) -> bool:
        """True if hosts see another list than in `other`."""
        return self._seen(kind) != other._seen(kind)

    def digest(self, kind: Kind) -> str:
        """Digest of a list as hosts see it, comparable between runs of the hub."""
        digest = self._digests.get(kind)
        if digest is None:
            found = sha256()
            for name, *shown in self._seen(kind):
                found.update(encode(name))
                for each in shown:
                    found.update(encode(each))
            digest = self._digests[kind] = found.hexdigest()[:32]
        return digest

    def _seen(self, kind: Kind) -> list[Sequence[object]]:
        return [(part.name, *shown) for part, shown in self._entries(kind, ui=True) if shown]

    def _entries(self, kind: Kind, *, ui: bool) -> list[tuple[UpstreamEntries | HubTools, Sequence[VisibleEntry]]]:
        own = [(self._own, self._own.shown)] if self._own is not None and kind is Kind.TOOL else []
        return [*own, *((part, part.entries(kind, ui=ui, hidden=self._hidden_of(kind, part))) for part in self.parts)]

    def _hidden_of(self, kind: Kind, part: UpstreamEntries) -> frozenset[str]:
        """Visible names that an earlier upstream has already."""
        return self._hidden.get((kind, part.name), NOTHING)

    # --- search mode ---

    def searched(self, view: View, always: Collection[str]) -> "Catalog":
        """The catalogue of `view`: the same, but of its tools those for finding and calling the others are listed, and
        the `always` ones. All can be called."""
        found = copy(self)
        found.view, found.index, found._own = view, None, HubTools(meta_tools(self.tool_counts(), reads=self._reads()))
        found._whole, found._digests, found._varies = self, {}, True
        found._costs = found._shown_cost = None
        found._hidden = dict(self._hidden)
        for part, shown in self.findable():
            unlisted = frozenset(each.visible for each in shown if each.visible not in always)
            found._hidden[Kind.TOOL, part.name] = self._hidden_of(Kind.TOOL, part) | unlisted
        return found

    def keep_index(self, index: SearchIndex) -> None:
        """Keep the index of what can be found here, for the next search."""
        self.index = index

    def findable(self) -> Iterator[tuple[UpstreamEntries, Sequence[VisibleEntry]]]:
        """The tools that a model may find here, by upstream."""
        whole = self._whole
        for part in whole.parts:
            yield part, part.entries(Kind.TOOL, ui=False, hidden=whole._hidden_of(Kind.TOOL, part))

    def tool_counts(self) -> dict[str, int]:
        """By what begins the names of a server's tools, how many of them can be found."""
        return {part.server_id: len(shown) for part, shown in self.findable() if shown}

    def part(self, upstream: str) -> UpstreamEntries | None:
        """The entries of an upstream."""
        return next((part for part in self.parts if part.name == upstream), None)

    def _reads(self) -> bool:
        """True if some tool says that it only reads, and is believed."""
        trusted = (shown for part, shown in self.findable() if part.rule.trusted)
        return any(only_reads(each.fields) for shown in trusted for each in shown)

    # --- the rest ---

    @property
    def always(self) -> frozenset[str]:
        """Visible names of the tools that are shown in search mode, too."""
        return NOTHING.union(*(part.always - self._hidden_of(Kind.TOOL, part) for part in self.parts))

    def chosen(self, view: View, rules: ProfileRules, previous: "Catalog | None") -> Generator[int, None, "Catalog"]:
        """The catalogue of `view`, whose profile chooses from this one; `previous` saves work. Pauses between tools,
        and yields the number of those it has looked at."""
        known = {} if previous is None else {part.name: part for part in previous.parts}
        budget = rules.profile.name_budget or self._rules.budget
        parts: list[ChosenEntries] = []
        for common in self.parts:
            part = yield from choose_part(common, budget, rules, known.get(common.name))
            parts += [] if part is None else [part]
        renamed, warnings = yield from rename_parts(parts, rules)
        known_tools = KnownTools(self.parts, self._rules.upstreams, self._heard)
        doubts = None if previous is None else previous._doubts
        if doubts is None or not doubts.still_right(rules, known_tools):
            doubts = yield from doubts_of_profile(rules, renamed, known_tools, {budget, self._rules.budget})
        return Catalog(
            renamed,
            structs.replace(self._rules, budget=budget),
            self._claims,
            self._sealer,
            settling=self._settling,
            view=view,
            varies=True,
            profile=rules.profile,
            chosen_from=self,
            heard=self._heard,
            doubts=doubts,
            warnings=(*warnings, *doubts.sentences),
        )

    def of_server(self, view: View, part: UpstreamEntries | None) -> "Catalog":
        """The catalogue of the one server that `view` shows, under its own names and URIs; None: an empty one."""
        parts = [] if part is None else [part.scoped()]
        return Catalog(parts, self._rules, self._claims, self._sealer, settling=self._settling, view=view)

    def costs(self) -> Mapping[str, TokenCost]:
        """By upstream, the cost of its tools for a model, and that of the hub's own; counted when first asked for."""
        if self._costs is None:
            costs = {part.name: cost_of(part.tool_bytes(self._hidden_of(Kind.TOOL, part))) for part in self.parts}
            self._costs = costs if self._own is None else {self._own.name: cost_of(self._own.tool_bytes()), **costs}
        return self._costs

    def tool_bytes(self) -> Iterator[tuple[str, int]]:
        """The visible name and the size of each tool that a model is shown."""
        if self._own is not None:
            yield from self._own.tool_bytes().items()
        for part in self.parts:
            yield from part.tool_bytes(self._hidden_of(Kind.TOOL, part)).items()

    @property
    def shown_cost(self) -> ShownCost:
        """The cost of all that a host is shown by it."""
        if self._shown_cost is None:
            self._shown_cost = shown_cost((size for _, size in self.tool_bytes()), self.instructions)
        return self._shown_cost

    @property
    def instructions(self) -> str:
        """Text for the model: what the profile says, a line for each upstream, and what they say, each under its title
        and the prefix of its tools, since they use their own names of tools; of one upstream alone, its very words."""
        if self._instructions is None:
            if self.view.server:
                self._instructions = "".join(part.snapshot.instructions.strip() for part in self.parts)
            else:
                own = "" if self.profile is None else self.profile.instructions
                self._instructions = instructions(own, list(self._words()))
        return self._instructions

    def _words(self) -> Iterator[ServerWords]:
        """What is said of each server that offers something, or says something; in a profile, of those of which it
        shows something."""
        tools = {part.name: len(shown) for part, shown in self.findable()}
        for part in self.parts:
            counts = {kind: len(part.shown[kind]) for kind in Kind} | {Kind.TOOL: tools[part.name]}
            if self.profile is not None and not any(counts.values()):
                continue
            kind = next((kind for kind in (Kind.TOOL, Kind.PROMPT, Kind.RESOURCE) if counts[kind]), Kind.TOOL)
            text = part.snapshot.instructions
            if counts[kind] or text.strip():
                noun = kind.value if counts[kind] != 1 else kind.value.removesuffix("s")
                offers = f"{counts[kind]} {noun}" if counts[kind] else ""
                prefix = "" if part.rule.prefix == "" else f"{part.sid}__*"
                yield ServerWords(prefix, part.name, part.title, offers, text)
