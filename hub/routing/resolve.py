"""Resolve a visible name or URI to its upstream and original name.

The catalogue of the host's view says so, with two exceptions. A name may be too new for it, or gone: then the list of
the upstream that would have it is read again before the host is refused. And a user interface that reads a URI means
its own server's.
"""

from typing import Final

import trio
from msgspec import Raw

from hub.calls.chain import Intent, Outcome, Stage
from hub.calls.host_exchange import HostExchange
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.upstream_entries import Route
from hub.link.bounded_dict import BoundedDict
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.wire.jsonrpc import Result, peek_str
from hub.wire.mcp import Kind

MAX_REMOVED: Final = 256
MAX_USED: Final = 256
AFFINITY_S: Final = 3600.0
"""Seconds for which a principal's use of a user interface tells which one is asking."""


class Resolver(Stage):
    """Resolves names and URIs in what is `live`. Before `live.settled`, what is not there is waited for."""

    def __init__(self, live: LiveCatalog, lists: ListUpdates) -> None:
        self._live = live
        self._lists = lists
        self._used_apps: BoundedDict[tuple[str, str], float] = BoundedDict(MAX_USED)
        """Times when principals used user interfaces of upstreams: one that reads `ui://x` means its own server's."""
        self._removed: BoundedDict[tuple[View, str], str] = BoundedDict(MAX_REMOVED)
        """Upstreams that were removed lately, by their view and the server id that begins their names."""

    def removed(self, name: str, sid: str, view: View) -> None:
        """Note that an upstream is not configured any more; its names in `view` began with `sid`."""
        self._removed.put((view, sid), name)

    def left(self, intent: Intent, outcome: Outcome) -> None:
        """Note that a host was given a resource: if it is a user interface, that may ask for more."""
        route = intent.target.route
        if isinstance(outcome, Result) and route.original.startswith("ui://"):
            principal = intent.host.caller.identity.principal
            self._used_apps.put((principal, route.upstream), trio.current_time())

    async def find(self, kind: Kind, name: str, exchange: HostExchange) -> Route | None:
        """The route of a name; where the catalogue lacks it, after reading the list again that would have it.

        Raises:
            UpstreamUnavailable: the upstream that would have it is disabled, or not configured any more.
        """
        if route := self._live.of(exchange.view).route(kind, name):
            return route
        await self._live.settled.wait()
        catalog = self._live.of(exchange.view)
        if route := catalog.route(kind, name):
            return route
        if owner := self._suspect(name, catalog, exchange.view):
            await self._lists.refresh(owner, kind)
        else:
            await self._lists.wait_for_first([part.name for part in catalog.parts if part.rule.prefix == ""], kind)
        return self._live.of(exchange.view).route(kind, name)

    def _suspect(self, name: str, catalog: Catalog, view: View) -> str | None:
        """The upstream that an unknown name would belong to, or did; looking that one up raises if it is gone."""
        sid = name.partition("__")[0]
        removed = self._removed.get((view.base, sid)) or self._removed.get((EVERYTHING, sid))
        if removed is not None and not self._live.shows(view, removed):
            removed = None
        return view.server or catalog.suspect(name) or removed

    async def resource(self, uri: str, exchange: HostExchange) -> list[Route]:
        """The owners of a resource; several only where local upstreams share files."""
        routes = self._live.of(exchange.view).resolve_uri(uri)
        if not routes:  # perhaps only not yet
            await self._live.settled.wait()
            await self._lists.catch_up()
            routes = self._live.of(exchange.view).resolve_uri(uri)
        if not routes and uri.startswith("ui://"):  # a user interface knows only its own server's URIs
            parts, principal = self._live.of(exchange.view).parts, exchange.caller.identity.principal
            owners = [part.name for part in parts if part.rule.apps]
            since = trio.current_time() - AFFINITY_S
            recent = [name for name in owners if self._used_apps.get((principal, name), float("-inf")) >= since]
            found = recent or owners
            routes = [Route(found[0], uri)] if len(found) == 1 else []
        return routes

    async def reference(self, ref: dict[str, Raw], exchange: HostExchange) -> tuple[Route | None, str]:
        """The owner of the prompt or resource that `ref` names, and the member of `ref` that names it.

        Raises:
            UpstreamUnavailable: the upstream that would have it is disabled, or not configured any more.
        """
        name, uri = peek_str(ref.get("name")), peek_str(ref.get("uri"))
        match peek_str(ref.get("type")):
            case "ref/prompt" if name is not None:
                return await self.find(Kind.PROMPT, name, exchange), "name"
            case "ref/resource" if uri is not None:
                template = self._live.of(exchange.view).route(Kind.TEMPLATE, uri)
                routes = [template] if template else await self.resource(uri, exchange)
                return (routes[0] if routes else None), "uri"
        return None, ""
