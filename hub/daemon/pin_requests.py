"""Requests about pins, as the control socket carries them: look at what servers have changed, and approve it."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import structs

from hub.app import Hub
from hub.control.pin_messages import ApprovedPins, PinnedServer, PinsApproved
from hub.daemon.approval_requests import OnlyAPerson, why_no_person
from hub.link.hub_errors import UpstreamUnavailable
from hub.linux.processes import Process
from hub.rules.fingerprints import key_of
from hub.wire.mcp import Kind

log = logging.getLogger("hubd.pins")

MIN_NAME: Final = 6
"""Characters of an own name of a tool by which it is recognised in texts of other servers."""


class PinRequests:
    """Carries them out, by their names in `hub.control.methods`. `shims`: the processes by which hosts are attached."""

    def __init__(self, hub: Hub, shims: Callable[[], Iterable[Process]] = tuple) -> None:
        self._hub = hub
        self._shims = shims

    async def pins(self, name: str | None = None, shows: bool = False) -> list[PinnedServer]:
        """All servers and their pins, or one: by its name, or by the visible name of a tool or prompt. `shows`: a
        person is shown all that differs, and may approve just that.
        Raises: UpstreamUnavailable, if there is no such server."""
        pins = self._hub.pins
        if name is None:
            return [pins.describe(each, shows=shows) for each in self._hub.supervisor.upstreams]
        server, item = self._find(name)
        found = pins.describe(server, shows=shows, others=frozenset(self._names_beside(server)) if shows else ())
        return [structs.replace(found, item=item)]

    async def approve_pins(self, name: str, state: str, item: str = "") -> PinsApproved:
        """Approve a server as it is listed in `state`, or one of its definitions.
        Raises: HubError, if it lists something else by now, or a program of a host or server asks."""
        await self._refuse_hosts(name)
        return PinsApproved(await self._hub.pins.approve(name, state, item))

    async def export_pins(self) -> ApprovedPins:
        """What was approved of all servers of the user."""
        return ApprovedPins(self._hub.pins.export(self._hub.config.upstreams))

    def _find(self, name: str) -> tuple[str, str]:
        """The server of this name, or the server and key of what is called so."""
        upstreams = self._hub.supervisor.upstreams
        if name in upstreams:
            return name, ""
        for kind in (Kind.TOOL, Kind.PROMPT):
            if (route := self._hub.live.everything.route(kind, name)) is not None and not route.signs_in:
                return route.upstream, key_of(kind, route.original)
        server, _, original = name.partition("__")
        if original and server in upstreams:
            return server, key_of(Kind.TOOL, original)
        raise UpstreamUnavailable(f"There is no server or tool {name}; there are: {', '.join(upstreams) or 'none'}")

    def _names_beside(self, server: str) -> Iterator[str]:
        """Names of other servers' tools: the visible ones, and their own where these are no plain words."""
        parts = self._hub.live.everything.parts
        own = {each.original for part in parts if part.name == server for each in part.askable(Kind.TOOL)}
        for part in parts:
            for each in part.shown[Kind.TOOL] if part.name != server else ():
                yield each.visible
                if len(each.original) >= MIN_NAME and "_" in each.original and each.original not in own:
                    yield each.original

    async def _refuse_hosts(self, name: str) -> None:
        """Raise OnlyAPerson, if a program of a host or a server asks, or one of which nothing is known."""
        if why := await why_no_person(self._shims()):
            log.warning("refused to approve %s: %s", name, why)
            self._hub.audit.note("refuse", name=name, m="approve", why=why)
            text = "this was run by a program of a host or a server, and only a person may approve"
            raise OnlyAPerson(f"{text}; run it in a terminal")
