"""What the user whom the hub runs for may see of it and have it do: the part of `hub.control.server.Controls` that is a
hub's.

Whoever may open the control socket is that user. Nothing here is decided: the parts of the hub are asked.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

import trio
from msgspec import UNSET, Raw, to_builtins

from cache.entry import DropCause
from hub.app import OPEN_DOOR, Hub
from hub.downstream.hosts import StatelessHost
from hub.downstream.request_pipeline import serve
from hub.link.interface import OWNER, Caller, Identity, UpstreamUnavailable
from hub.routing.host_exchange import HostExchange
from hub.wire.jsonrpc import Failure, Reply, Request, Result, own_items, peek_object, peek_str, raw
from hub.wire.mcp import HUBD_VERSION, INVALID_PARAMS, L4, TOOLS_CALL, Kind
from upstreams.journal.journal import Journal
from upstreams.lifecycle import State
from upstreams.status import UpstreamStatus

log = logging.getLogger("hubd")

OPERATOR: Final = Identity(OWNER, "cli")
CLOSE: Final = 0.7
"""How like the name of a tool one must be to be taken for it mistyped."""
_UNKNOWN: Final = {
    **dict.fromkeys((*UpstreamStatus.__struct_fields__, "parked", "stale_config")),
    "state": "unresolved",
}
"""What can be said of an upstream that the hub does without, since a reference of its configuration leads nowhere."""


class Operator:
    """That user, at one hub."""

    def __init__(self, hub: Hub, left_out: Callable[[], Mapping[str, str]] = dict) -> None:
        """`left_out`: the upstreams that the hub does without though its files name them, and why."""
        self._hub = hub
        self._left_out = left_out

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
            ]
            + [{**_UNKNOWN, "name": name, "last_error": reason} for name, reason in self._left_out().items()],
            "hosts": hub.downstreams.status(),
            "projects": [] if hub.projects is None else hub.projects.status(),
            "cache": self._cache(),
            "buffer": hub.budget.facts(),
            "warnings": self.warnings(),
        }

    def _stale(self, name: str) -> str | None:
        """Why an upstream goes on as it was configured before; None: it does not."""
        candidate = self._hub.supervisor.stale(name)
        if candidate is None:
            return None
        return candidate.last_error or "with its new settings it is not ready yet"

    def warnings(self) -> list[str]:
        """What of the hub as a whole should be seen to."""
        hub, catalog = self._hub, self._hub.router.catalog
        projects = [] if hub.projects is None else hub.projects.warnings
        door = [OPEN_DOOR] if hub.config.auth == "none" else []
        unsaved = filter(None, [hub.memory.problem, hub.last_known.problem])
        shown = dict.fromkeys(each for view in (catalog, *catalog.projects.values()) for each in view.warnings)
        return [*projects, *door, *unsaved, *shown]

    async def tools(self) -> list[object]:
        """The merged tools as a host of the newest legacy revision sees them."""
        return list(await self._listed())

    async def _listed(self) -> list[Raw]:
        reply = await self._serve(Request(0, "tools/list", {}), counts=False)
        return own_items(reply.value, "tools") if isinstance(reply, Result) else []

    async def call(self, name: str, arguments: Raw) -> Raw:
        """Call a tool by its visible name; the whole result, or an object with the member `error`.

        Raises:
            Overloaded: too many calls of this kind are running.
        """
        request = Request(0, TOOLS_CALL, {"name": raw(name), "arguments": arguments})
        reply = await self._serve(request)
        if isinstance(reply, Failure):
            if reply.code == INVALID_PARAMS and self._hub.router.catalog.route(Kind.TOOL, name) is None:
                known = [peek_str(peek_object(tool).get("name")) or "" for tool in await self._listed()]
                reply = Failure(reply.code, self._no_tool(name, known))
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
        facts: dict[str, object] = to_builtins(self._hub.reads.statistics())
        return facts

    async def cache_clear(self, name: str | None) -> int:
        """Forget what was read of an upstream, or of all; how many resources were kept of it.

        Raises:
            UpstreamUnavailable: there is none of this name.
        """
        if name is not None and name not in self._hub.supervisor.upstreams:
            raise self._unknown(name)
        cleared = self._hub.reads.invalidate(name, DropCause.CLEARED)
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
        if reason := self._left_out().get(name):
            return UpstreamUnavailable(f"{name} is not started: {reason}")
        known = self._hub.supervisor.upstreams
        text = f"{name} is disabled in the configuration" if name in known else f"There is no server {name}"
        return UpstreamUnavailable(f"{text}; there are: {', '.join(known) or 'none'}")

    def _no_tool(self, name: str, known: Iterable[str]) -> str:
        """Why a tool cannot be called that is not listed."""
        catalog, upstreams = self._hub.router.catalog, self._hub.supervisor.upstreams
        sid = name.partition("__")[0]
        if reason := self._left_out().get(sid):
            return f"{sid} is not started: {reason}"
        upstream = upstreams.get(catalog.suspect(name) or sid)
        if upstream is not None and upstream.state is not State.CONNECTED:
            why = (upstream.availability.history.last_error or "").partition("\n")[0]
            text = f"{upstream.name} is {upstream.state.value}{why and f': {why}'}; see `hubd status`"
            return f"there is no tool {name} now, since {text}"
        head = f"{sid}__"
        own = {tool.removeprefix(head): tool for tool in known if tool.startswith(head)}
        meant = _nearest(name.removeprefix(head), own) if own else _nearest(name, {tool: tool for tool in known})
        meant = f"; did you mean {meant}?" if meant else ";"
        return f"there is no tool {name}{meant} `hubd tools` lists all"

    async def _serve(self, request: Request, *, counts: bool = True) -> Reply:
        host = StatelessHost(self._hub.downstreams, OPERATOR.principal, counts=counts)
        exchange = HostExchange(Caller(OPERATOR, L4, {}), lambda message, *, vital=False: None)
        reply = await serve(host, self._hub.router, request, exchange)
        assert reply is not None, "only the hub itself cancels it, and then answers"
        return reply


def _nearest(name: str, known: Mapping[str, str]) -> str:
    """What a key of `known` stands for that is much like `name`; "": none is."""
    near = get_close_matches(name, known, 1, CLOSE)
    return known[near[0]] if near else ""
