"""Router as hosts know it: what carriers and hosts ask of the one that answers requests."""

from typing import Protocol

import trio
from msgspec import Raw

from hub.catalog.view import View
from hub.link.hub_errors import HubError
from hub.link.interface import Caller, Tenant
from hub.routing.host_exchange import HostExchange
from hub.wire.http.mcp_headers import Mirror
from hub.wire.jsonrpc import Reply, Request, Result


class Router(Protocol):
    """The part of `hub.routing.router.Router` that hosts need."""

    def initialize(self, params: dict[str, Raw], view: View) -> tuple[Result, str, dict[str, Raw]]: ...

    def at_once(self, request: Request, caller: Caller, view: View) -> Reply | None:
        """The answer, if nothing need be waited for; None: only `dispatch` can tell."""
        ...

    async def dispatch(self, request: Request, exchange: HostExchange) -> Reply: ...

    def failed(self, request: Request, exchange: HostExchange, error: HubError) -> Reply:
        """The answer to a request that failed by `error`, as its host may see it."""
        ...

    def find_view(self, name: str) -> View | None:
        """The view of the endpoint /mcp/<name>; None: there is none."""
        ...

    settled: trio.Event
    """Set once lists are answered."""

    async def wait_shown(self, view: View) -> None:
        """Wait until the lists of `view` can be shown."""
        ...

    def digests(self, view: View) -> dict[str, str]: ...

    def mirrors(self, tool: str, view: View) -> tuple[Mirror, ...]: ...

    def log_level_changed(self) -> None: ...

    def roots_changed(self, tenant: Tenant) -> None:
        """The roots of a host have changed."""
        ...

    def left(self, tenant: Tenant) -> None:
        """A conversation that lasted longer than a request is over. Called once."""
        ...
