"""Owners of the visible names and URIs of one view. Pure.

A name that two upstreams show belongs to the first one, and the other's entry is hidden. Former names, bare names for
user interfaces, and the tools for signing in lead to their owners, too, where no entry has the name.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy

from hub.catalog.entries import NAME_KINDS, NOTHING, Route, UpstreamEntries, VisibleEntry
from hub.catalog.names import quote_some
from hub.wire.http.mcp_headers import Mirror
from hub.wire.mcp import Kind


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
            taken = frozenset(routes.keys() & part.routes[kind].keys())
            routes.update((name, route) for name, route in part.routes[kind].items() if name not in taken)
            if taken:
                self._hidden[kind, part.name] = taken
            if (new := taken - self._told.get((kind, part.name), NOTHING)) and kind in NAME_KINDS:
                yield f"{part.name}: left out, because an earlier upstream has the name: {quote_some(sorted(new))}"
        for part in self._parts:
            for name, route in part.former(kind).items():
                routes.setdefault(name, route)
        if kind is Kind.TOOL:
            yield from self._lay_out_apps(routes)
            for part in self._parts:
                for name, route in part.route_of_sign_in.items():
                    routes.setdefault(name, route)

    def _lay_out_apps(self, routes: dict[str, Route]) -> Iterator[str]:
        """Let user interfaces reach their tools by bare names, but for names that are taken."""
        for part in self._parts:
            names = {each.visible for each in part.apps}
            if taken := names & routes.keys():
                self._hidden[Kind.TOOL, part.name] = self.names_left_out(Kind.TOOL, part.name) | taken
            if new := taken - self._told.get((Kind.TOOL, part.name), NOTHING):
                yield (
                    f"{part.name}: its user interfaces cannot call these tools here, because another has the name: "
                    f"{quote_some(sorted(new))}; use the endpoint /mcp/{part.name}"
                )
            routes.update((name, part.route_of(Kind.TOOL, name)) for name in names - taken)
