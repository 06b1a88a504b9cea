"""The door: all that the daemon and its listener know of the dashboard. The rest is loaded when somebody comes."""

from collections.abc import Awaitable, Callable, Collection
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from hub.app import WALL
from hub.control.answers import DashboardTicket
from hub.daemon.dashboard.dependencies import Parts
from hub.downstream.access.hub_urls import with_port
from hub.link.hub_errors import HubError
from hub.link.module_loading import load
from hub.net.http_request import EarlyReply, HttpRequest, Undecided
from hub.net.response_writer import HttpResponse

if TYPE_CHECKING:
    from hub.daemon.dashboard.guard import DashboardGuard
    from hub.daemon.dashboard.routes import Routes
    from hub.daemon.dashboard.tickets import PageTickets

MODULES: Final = "hub.daemon.dashboard.guard", "hub.daemon.dashboard.routes"
LOOPBACK: Final = ("127.", "::1", "0.0.0.0", "::")
"""Beginnings of addresses at which a listener is met by the names of this machine."""


class Dashboard:
    """The dashboard of a hub. `address`: where its listener is; `epoch`: the file of the number of the epoch."""

    def __init__(self, parts: Parts, address: Callable[[], tuple[str, int]], epoch: Callable[[], Path]) -> None:
        self._parts = parts
        self._address = address
        self._epoch = epoch

    # --- the listener -------------------------------------------------------------------------------------------------

    def judge(self, request: HttpRequest, hosts: Collection[str]) -> EarlyReply | Undecided | None:
        """As `DashboardGuard.judge`."""
        if "guard" in self.__dict__:
            return self.guard.judge(request, hosts)
        return partial(self._load_and_judge, request, hosts)

    async def _load_and_judge(self, request: HttpRequest, hosts: Collection[str]) -> EarlyReply | None:
        await load(*MODULES)
        found = self.guard.judge(request, hosts)
        return found if found is None or isinstance(found, EarlyReply) else await found()

    def handle(self, request: HttpRequest, response: HttpResponse) -> Awaitable[None]:
        """Answer a request that was let in."""
        return self.routes.handle(request, response)

    def welcomes(self, request: HttpRequest) -> bool:
        """True if a person who looks at the hub's address is led to the dashboard."""
        from hub.daemon.dashboard.guard import is_shown

        return "text/html" in request.headers.get("accept", "") and is_shown(request, self._parts.hub.config)

    def end(self) -> None:
        """End the streams of pages that are open: the hub stops."""
        if "routes" in self.__dict__:
            self.routes.feed.end()

    # --- the control socket -------------------------------------------------------------------------------------------

    async def ticket(self, printed: bool = False) -> DashboardTicket:
        """What opens the dashboard once; `printed`: in any browser. Raises HubError: there is no dashboard, or a
        program of a host or server asks."""
        await self._parts.decisions.demand_person("hubd dashboard", "the dashboard")
        config, (host, port) = self._parts.hub.config, self._address()
        if config.dashboard.enabled == "off":
            raise HubError('the dashboard is off ([dashboard] enabled = "off")')
        is_local, here = config.dashboard.enabled == "local", host.startswith(LOOPBACK)
        if is_local and (config.behind_tls_proxy or not here):
            why = "the hub is behind a proxy" if config.behind_tls_proxy else f"the hub listens on {host} alone"
            text = f'the dashboard is off: it is for browsers of this machine, and {why} ([dashboard] enabled = "on"'
            raise HubError(f"{text} shows it all the same)")
        await load(*MODULES)
        printed = printed or self.guard.is_blind
        text, ticket = self.tickets.issue(is_printed=printed)
        from hub.daemon.dashboard.tickets import PRINTED_S, SESSION_S, TICKET_S

        name = ticket.host if here else f"[{host}]" if ":" in host else host
        page = f"http://{name if port == 80 else with_port(name, port)}/ui/"
        return DashboardTicket(
            url=f"{page}#ticket={text}",
            page=page,
            expires_s=TICKET_S,
            session_s=PRINTED_S if printed else SESSION_S,
            printed=printed,
            is_blind=self.guard.is_blind,
        )

    async def end_pages(self) -> None:
        """Sign all pages of the dashboard out. Raises HubError: they are, but only until the hub ends."""
        await load(*MODULES)
        try:
            await trio.to_thread.run_sync(self.tickets.end_all)
        except OSError as error:
            text = "pages are signed out until the hub ends, and no longer"
            raise HubError(f"{text}: {self._epoch()} cannot be written: {error.strerror}") from None

    # --- parts --------------------------------------------------------------------------------------------------------

    @cached_property
    def tickets(self) -> "PageTickets":
        """PageTickets and keys."""
        from hub.daemon.dashboard.tickets import PageTickets

        return PageTickets(self._parts.hub.sealer, self._epoch(), WALL)

    @cached_property
    def guard(self) -> "DashboardGuard":
        """The judge of requests."""
        from hub.daemon.dashboard.guard import DashboardGuard
        from hub.sign_in.connection_owner import ConnectionOwners

        return DashboardGuard(self.tickets, ConnectionOwners(), lambda: self._parts.hub.config)

    @cached_property
    def routes(self) -> "Routes":
        """Everything that is answered."""
        from hub.daemon.dashboard.routes import Routes

        return Routes(self._parts, self.tickets, self.guard)
