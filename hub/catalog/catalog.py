"""What hosts are shown of all upstreams, and the way from each visible name or URI back to its owner.

`merge` makes a `Catalog` of the upstreams' snapshots; a change anywhere makes a new one. Order is that of the
configuration, then the upstream's own (G-8), so the same offers make the same lists whoever connected first. What
concerns one upstream is kept in its `Offers` and taken over while its snapshot is the same; entries are encoded when a
list is first asked for, once per revision of hosts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from msgspec import Raw, Struct

from hub.catalog.entries import NAME_KINDS, NOTHING, Offers, Route, UpstreamRule, quote_some
from hub.catalog.instructions import joined
from hub.catalog.rewrite import Change, localise, unchanged, untag_arguments
from hub.catalog.uri_claims import Claims
from hub.catalog.view import EVERYTHING, View
from hub.link.sealing import InvalidSeal, Sealer, load_keys
from hub.wire.http.mcp_headers import Mirror
from hub.wire.hub_loops import EXPERIMENTAL, announcement, join_chains, read_chain
from hub.wire.jsonrpc import RemoteProtocolError, encode, peek_str
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

__all__ = ["Catalog", "Route", "Rules", "UpstreamRule", "localise", "merge", "untag_arguments"]

SETTLING_TTL_MS: Final = 1_000
"""How long a list is good while some upstreams have yet to say what they have, in milliseconds."""
MAX_TTL_MS: Final = 300_000
MAX_TITLE_CHARS: Final = 80

_SERVER_INFO = encode({SERVER_INFO_KEY: HUB_INFO})[1:-1]


Ttl = Callable[[Snapshot, Kind], int]
"""For how many milliseconds hosts need not ask again for a list, as far as one upstream is concerned."""


class Rules(Struct, frozen=True):
    """What the configuration says about how things appear, upstreams in its order."""

    upstreams: tuple[UpstreamRule, ...]
    budget: int = 50
    """Characters of a visible name."""
    page_size: int = 0
    """Entries per page of a list; 0: all in one (S-31)."""


def merge(
    snapshots: Iterable[Snapshot],
    rules: Rules,
    claims: Claims,
    *,
    sealer: Sealer | None = None,
    view: View = EVERYTHING,
    settling: bool = False,
    provisional: bool = False,
    varies: bool = False,
    previous: "Catalog | None" = None,
) -> "Catalog":
    """The catalogue of `snapshots`; those of upstreams without a rule are left out.

    `claims` learns the configuration and every listed URI. `provisional` keeps listed URIs from being claimed: for
    catalogues made before all upstreams had their chance, so that claims go by configuration order and not by arrival
    (naming.md 5.3). `settling` says that upstreams are still to come; `previous` saves work. Without a `sealer`,
    cursors end with this catalogue.
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
    known = {} if previous is None else {offers.name: offers for offers in previous.offers}
    merged: list[Offers] = []
    for rule, snapshot in present:
        offers = known.get(rule.name)
        if offers is None or not offers.still_right(snapshot, rule, rules.budget, listing):
            offers = Offers(snapshot, rule, rules.budget, listing)
        merged.append(offers)
    return Catalog(
        merged, rules, claims, sealer or Sealer(load_keys(None)), settling=settling, view=view, varies=varies
    )


class Catalog:
    """One state of the merged offers. Never changes, but for what it remembers in order to answer faster.

    `view` is the view it is of. `warnings` are sentences for the operator.
    """

    def __init__(
        self,
        offers: Sequence[Offers],
        rules: Rules,
        claims: Claims,
        sealer: Sealer,
        *,
        settling: bool = False,
        view: View = EVERYTHING,
        varies: bool = False,
    ) -> None:
        self.offers = tuple(offers)
        self.view = view
        self._rules, self._claims, self._sealer, self._settling = rules, claims, sealer, settling
        self._varies = varies
        self._emitters: dict[str, Change] = {}
        self._instructions: str | None = None
        self._digests: dict[Kind, str] = {}
        self._routes: dict[Kind, dict[str, Route]] = {}
        self._hidden: dict[tuple[Kind, str], frozenset[str]] = {}
        """Per kind and upstream, the visible names that another upstream had first."""
        warnings = [warning for its in offers for warning in its.warnings]
        for kind in Kind:
            warnings += self._lay_out(kind)
        self.warnings = tuple(warnings)
        self.behind = join_chains(read_chain(its.snapshot.capabilities.get(EXPERIMENTAL)) for its in offers)
        """The hubs among the upstreams, and those behind them."""
        self._mirrors: dict[str, tuple[Mirror, ...]] = {}
        for its in reversed(self.offers):  # of one name, the first one's
            self._mirrors.update(its.mirrors)

    def _lay_out(self, kind: Kind) -> Iterator[str]:
        """Fill the table of `kind`. A name that two upstreams show is the first one's; yields what to say about it."""
        routes = self._routes[kind] = {}
        for offers in self.offers:
            taken = frozenset(routes.keys() & offers.routes[kind].keys())
            routes.update((name, route) for name, route in offers.routes[kind].items() if name not in taken)
            if taken:
                self._hidden[kind, offers.name] = taken
            if taken and kind in NAME_KINDS:
                yield f"{offers.name}: left out, because an earlier upstream has the name: {quote_some(sorted(taken))}"
        for offers in self.offers:
            for name, route in offers.former(kind).items():
                routes.setdefault(name, route)
        if kind is Kind.TOOL:
            yield from self._lay_out_apps(routes)

    def _lay_out_apps(self, routes: dict[str, Route]) -> Iterator[str]:
        """Let views reach their tools by bare names; a name that is taken is not theirs (naming.md 6, rule 3)."""
        for offers in self.offers:
            names = {each.visible for each in offers.apps}
            if taken := names & routes.keys():
                self._hidden[Kind.TOOL, offers.name] = self._hidden.get((Kind.TOOL, offers.name), NOTHING) | taken
                yield (
                    f"{offers.name}: its user interfaces cannot call these tools here, because another has the name: "
                    f"{quote_some(sorted(taken))}; use the endpoint /mcp/{offers.name}"
                )
            routes.update((name, Route(offers.name, name)) for name in names - taken)

    def __repr__(self) -> str:
        counts = ", ".join(f"{sum(len(each.shown[kind]) for each in self.offers)} {kind.value}" for kind in Kind)
        return f"<Catalog {self.view.name or 'of ' + str(len(self.offers))}: {counts}>"

    # --- the way back ---

    def route(self, kind: Kind, visible: str) -> Route | None:
        """Whose tool, prompt, resource or template is listed as `visible`, or was under a former name of its server."""
        return self._routes[kind].get(visible)

    def mirrors(self, visible: str) -> tuple[Mirror, ...]:
        """The arguments of a tool that a modern host repeats in headers (H-9)."""
        return self._mirrors.get(visible, ())

    def suspect(self, visible: str) -> str | None:
        """The upstream an unknown name would belong to; its lists deserve a refresh before a no (naming.md 3.3)."""
        sids = {offers.rule.sid: offers.name for offers in self.offers if offers.rule.prefix != ""}
        return sids.get(visible.partition("__")[0])

    def resolve_uri(self, uri: str) -> list[Route]:
        """Who may be asked to read `uri`, listed or not, best first; empty when nobody has anything to do with it."""
        if self.view.server:
            return [Route(self.view.server, uri)]
        present = {offers.name for offers in self.offers}
        return [Route(name, original) for name, original in self._claims.resolve(uri) if name in present]

    def with_views(self) -> list[str]:
        """The upstreams whose user interfaces are shown."""
        return [offers.name for offers in self.offers if offers.rule.apps]

    def emitter(self, upstream: str, asked: str | None = None) -> Change:
        """How hosts may see the URIs in a result of `upstream`: for `localise`.

        The URI that a read `asked` for comes back in just that form (naming.md 6, rule 7).
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
        """The way back for URIs in arguments: for `untag_arguments`."""
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
        """The result of a list request for hosts of `host_version`; `ui`: they declared the apps extension (X-22).

        Raises:
            RemoteProtocolError: -32602, when `cursor` is not of this list, or not this principal's.
        """
        if not self._rules.page_size and cursor is None:
            chunks = [
                each.chunk(kind, host_version, ui=ui, hidden=self._hidden.get((kind, each.name), NOTHING))
                for each in self.offers
            ]
            return self._result(kind, host_version, chunks, None, ttl_ms)
        entries = [
            (each, shown)
            for each in self.offers
            for shown in each.entries(kind, ui=ui, hidden=self._hidden.get((kind, each.name), NOTHING))
        ]
        names = "\0".join([shown.visible for _, shown in entries])
        purpose = f"cursor\0{kind.value}\0{principal}\0{sha256(names.encode()).hexdigest()}"
        start = 0 if cursor is None else self._open_cursor(purpose, cursor)
        size = self._rules.page_size or len(entries)
        items = [each.encode(kind, host_version, shown, ui=ui) for each, shown in entries[start : start + size]]
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
        """How long a modern host may go without asking again (K-12, K-14)."""
        most = SETTLING_TTL_MS if self._settling else MAX_TTL_MS
        return min([most, *(ttl_ms(each.snapshot, kind) for each in self.offers)])

    def _public(self, kind: Kind) -> bool:
        """Whether every upstream that contributes says that its list is the same for everyone, and so does the hub."""
        if self._varies:
            return False
        contributors = self._contributors(kind)
        fresh = [each.snapshot.freshness.get(kind) for each in contributors]
        modern = all(era_of(each.snapshot.version) is Era.MODERN for each in contributors)
        uniform = not any(each.varies for each in contributors)
        return bool(fresh) and modern and uniform and all(each is not None and each.public for each in fresh)

    def _contributors(self, kind: Kind) -> list[Offers]:
        return [each for each in self.offers if CAPABILITY[kind] in each.snapshot.capabilities]

    def differs(self, other: "Catalog", kind: Kind) -> bool:
        """Whether hosts see another list than in `other`."""
        return self._seen(kind) != other._seen(kind)

    def digest(self, kind: Kind) -> str:
        """What tells, in any run of the hub, whether hosts see another list: what `differs` says within one."""
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
        lists = [
            (each, each.entries(kind, ui=True, hidden=self._hidden.get((kind, each.name), NOTHING)))
            for each in self.offers
        ]
        return [(each.name, *shown) for each, shown in lists if shown]

    # --- the rest ---

    def of_server(self, view: View, offers: Offers | None) -> "Catalog":
        """The catalogue of the one server that `view` shows, under its own names and URIs; None: an empty one."""
        its = [] if offers is None else [offers.scoped()]
        return Catalog(its, self._rules, self._claims, self._sealer, settling=self._settling, view=view)

    @property
    def instructions(self) -> str:
        """What the upstreams tell the model, each under its title and the prefix of its tools, whose names in there are
        the server's own (G-12); of one upstream alone, its very words."""
        if self._instructions is None:
            texts = [(_heading(each), each.snapshot.instructions.strip()) for each in self.offers]
            sections = [(heading, text) for heading, text in texts if text]
            self._instructions = sections[0][1] if self.view.server and sections else joined(sections)
        return self._instructions


def _heading(offers: Offers) -> str:
    """By which a model tells whose tools are meant, also if two servers have one title."""
    title = _title(offers.snapshot)
    return title if offers.rule.prefix == "" else f"{title} (tools: {offers.rule.sid}__*)"


def _title(snapshot: Snapshot) -> str:
    """A heading on one line: the server's title or, failing that, its name in the configuration."""
    title = peek_str(snapshot.server_info.get("title")) or ""
    title = " ".join("".join(char if char.isprintable() else " " for char in title[: 4 * MAX_TITLE_CHARS]).split())
    return title[:MAX_TITLE_CHARS] or snapshot.upstream
