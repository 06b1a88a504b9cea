"""What the user whom the hub runs for may see of it and have it do: the part of `hub.control.Controls` that is a hub's.

Whoever may open the control socket is that user. Nothing here is decided: the parts of the hub are asked.
"""

import logging
from typing import Final

import trio
from msgspec import UNSET, Raw, to_builtins

from cache.subject import Cause
from hub.hub import OPEN_DOOR, Hub
from hub.link.exchange import OWNER, Caller, Identity, UpstreamUnavailable
from hub.relay import HostExchange
from hub.wire.jsonrpc import Failure, Request, peek_array, peek_object, raw
from hub.wire.mcp import HUBD_VERSION, L4, TOOLS_CALL
from upstreams.journal import Journal

log = logging.getLogger("hubd")

OPERATOR: Final = Identity(OWNER, "cli")


class Operator:
    """That user, at one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def __repr__(self) -> str:
        return f"<Operator of {self._hub.supervisor!r}>"

    async def status(self) -> dict[str, object]:
        """Everything `hubd status` shows."""
        hub = self._hub
        return {
            "version": HUBD_VERSION,
            "uptime_s": round(trio.current_time() - hub.started_at, 1),
            "settled": hub.router.settled.is_set(),
            "upstreams": [
                {
                    **to_builtins(upstream.status()),
                    "parked": hub.carrier.parking.parked(name),
                    "stale_config": self._stale(name),
                }
                for name, upstream in hub.supervisor.upstreams.items()
            ],
            "hosts": hub.downstreams.status(),
            "projects": [] if hub.projects is None else hub.projects.status(),
            "cache": self._cache(),
            "warnings": self._warnings(),
        }

    def _stale(self, name: str) -> str | None:
        """Why an upstream goes on as it was configured before; None: it does not."""
        candidate = self._hub.supervisor.stale(name)
        if candidate is None:
            return None
        return candidate.last_error or "with its new settings it is not ready yet"

    def _warnings(self) -> list[str]:
        hub, catalog = self._hub, self._hub.router.catalog
        projects = [] if hub.projects is None else hub.projects.warnings
        door = [OPEN_DOOR] if hub.config.auth == "none" else []
        unsaved = filter(None, [hub.memory.problem, hub.last_known.problem])
        shown = dict.fromkeys(each for view in (catalog, *catalog.projects.values()) for each in view.warnings)
        return [*projects, *door, *unsaved, *shown]

    async def tools(self) -> list[object]:
        """The merged tools as a host of the newest legacy revision sees them."""
        reply = await self._hub.router.dispatch(Request(0, "tools/list", {}), self._exchange())
        if isinstance(reply, Failure):
            return []
        return list(peek_array(peek_object(reply.value).get("tools")))

    async def call(self, name: str, arguments: Raw) -> Raw:
        """Call a tool by its visible name; the whole result, or an object with the member `error`."""
        request = Request(0, TOOLS_CALL, {"name": raw(name), "arguments": arguments})
        self._hub.downstreams.admit(OPERATOR.principal)
        try:
            reply = await self._hub.router.dispatch(request, self._exchange())
        finally:
            self._hub.downstreams.release(OPERATOR.principal)
        if isinstance(reply, Failure):
            data = {} if reply.data is UNSET else {"data": reply.data}
            return raw({"error": {"code": reply.code, "message": reply.message, **data}})
        return reply.value

    async def restart(self, name: str) -> None:
        """Start an upstream anew, without waiting for it.

        Raises:
            UpstreamUnavailable: there is none of this name that could be.
        """
        try:
            self._hub.supervisor.restart(name)
        except KeyError:
            raise self._unknown(name) from None
        log.info("%s is restarted by command", name)

    async def cache(self) -> dict[str, object]:
        """Everything `hubd cache` shows."""
        return self._cache()

    def _cache(self) -> dict[str, object]:
        facts: dict[str, object] = to_builtins(self._hub.reads.facts())
        return facts

    async def cache_clear(self, name: str | None) -> int:
        """Forget what was read of an upstream, or of all; how many resources were kept of it.

        Raises:
            UpstreamUnavailable: there is none of this name.
        """
        if name is not None and name not in self._hub.supervisor.upstreams:
            raise self._unknown(name)
        cleared = self._hub.reads.invalidate(name, Cause.CLEARED)
        log.info("what was read of %s is forgotten by command: %d resources", name or "all upstreams", cleared)
        return cleared

    def journal(self, name: str) -> Journal:
        """What an upstream said, and what became of it.

        Raises:
            UpstreamUnavailable: there is none of this name.
        """
        if name not in self._hub.supervisor.upstreams:
            raise self._unknown(name)
        return self._hub.supervisor.journals.of(name)

    def _unknown(self, name: str) -> UpstreamUnavailable:
        known = self._hub.supervisor.upstreams
        text = f"{name} is disabled in the configuration" if name in known else f"There is no upstream {name}"
        return UpstreamUnavailable(f"{text}; there are: {', '.join(known) or 'none'}")

    def _exchange(self) -> HostExchange:
        return HostExchange(Caller(OPERATOR, L4, {}), lambda message, *, vital=False: None)
