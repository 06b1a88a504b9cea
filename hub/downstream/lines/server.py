"""The unix socket for hosts: accepts connections; `preamble` reads who connects, `connection` serves each host.

The counterpart of `hub.net.look_after_connections` for shims. `hubd connect` and the hub say to each other, in lines
that cannot be mistaken for JSON-RPC:

    {"hubd":1,"host":"...","upstream":"...",...}    the shim, before the host's own bytes: who connects
    {"hubd":1,"bye":"stopping"}                     the hub is about to stop, and asks for no more requests
    {"hubd":1,"bye":"understood"}                   the shim has sent its last request; the rest is for the next hub
    {"hubd":1,"lists":{}}                           the hub will say what its lists are
    {"hubd":1,"lists":{"toolsListChanged":"..."}}   digests of the lists that the host may see now, once it is known
                                                    where it works; each time that it was told of a change, after that

The goodbye goes only to shims with `"bye":true` in their preamble, the digests to those with `"lists":true`: after a
restart of the hub they tell their host of the lists that differ, and no others. Shims and hubs ignore members that
they do not know. A program that connects and speaks MCP at once is served too, without a name.
"""

import logging
import os
from collections import Counter
from contextlib import suppress
from typing import Final

import trio

from config.loading.checks.profiles import OWN_LABEL
from hub.catalog.endpoint_views import EVERYTHING, PROFILE_MARK, View
from hub.catalog.profiles.profile_choice import find_profile
from hub.downstream.host_conversations import Hosts
from hub.downstream.lines.connection import FLUSH_S, LineHost
from hub.downstream.lines.preamble import Preamble, read_preamble
from hub.link.call_interface import OWNER, Identity
from hub.linux.peer_credentials import peer_pid, peer_uid
from hub.linux.processes import Process, find_process
from hub.net.acceptor import Acceptor, share_of_descriptors
from hub.routing.router import Router
from hub.wire.jsonrpc import Failure, encode_response
from hub.wire.mcp import INVALID_PARAMS

log = logging.getLogger("hubd.lines")

PREAMBLE_S: Final = 10.0
PARTING_S: Final = 1.0
"""Time for hosts to answer a goodbye. A host that does not read does not answer."""
MAX_CONNECTIONS: Final = 256
"""At most a quarter of the descriptors."""
COMMAND_LINE: Final = OWN_LABEL
"""The host of commands such as `hubd call`."""


class LineServer:
    """Serves the shims of this user. At the end `goodbye`, then `drain`, which lets their running calls finish."""

    def __init__(self, router: Router, hosts: Hosts) -> None:
        self._router = router
        self._hosts = hosts
        self._accepting = trio.CancelScope()
        self._leaving = False
        self._shims: Counter[Process] = Counter()
        self._acceptor = Acceptor("hosts on the unix socket", min(MAX_CONNECTIONS, share_of_descriptors(4)))

    async def serve(
        self, listener: trio.SocketListener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Accept and serve. Cancellation: ends every connection; what hosts have asked for is cancelled."""
        async with trio.open_nursery() as handlers:
            task_status.started()
            with self._accepting:
                await self._acceptor.serve(listener, self._serve, handlers)

    @property
    def shims(self) -> tuple[Process, ...]:
        """The processes that attached hosts, as they were then, but for the command line, which attaches itself for a
        person."""
        return tuple(self._shims)

    def goodbye(self) -> None:
        """Take no more connections; hosts that understand it are told to keep their requests for the next hub."""
        if not self._leaving:
            self._leaving = True
            self._accepting.cancel()
            for host in self._lines():
                host.goodbye()

    async def drain(self) -> None:
        """Return when no call of a host is running, none is on its way from a host that was told goodbye, and their
        answers have left.

        Cancellation: what still runs is cut off."""
        self.goodbye()
        with trio.move_on_after(PARTING_S):
            for host in self._lines():
                if host.parted is not None:
                    await host.parted.wait()
        await self._hosts.requests.wait_none()
        with trio.move_on_after(FLUSH_S):
            for host in self._lines():
                await host.flush()

    def _lines(self) -> list[LineHost]:
        return [host for host in self._hosts if isinstance(host, LineHost)]

    async def _serve(self, stream: trio.SocketStream) -> None:
        uid = peer_uid(stream.socket)
        if uid != os.getuid():
            log.warning("refused a unix socket connection from uid %d: this hub serves uid %d", uid, os.getuid())
            return
        try:
            with trio.fail_after(PREAMBLE_S):
                preamble, rest = await read_preamble(stream)
        except (trio.BrokenResourceError, trio.TooSlowError, ValueError) as error:
            log.warning("a connection on the unix socket did not say who it is: %s", error or "it is gone")
            return
        if self._leaving:
            return  # it comes back when there is a hub again
        view = self._view(preamble)
        if isinstance(view, str):
            log.info("refused a host: %s", view)
            if not rest:  # its shim answers the first request by its id, so that one is waited for
                with suppress(trio.BrokenResourceError), trio.move_on_after(PREAMBLE_S):
                    await stream.receive_some()
            with suppress(trio.BrokenResourceError), trio.move_on_after(PREAMBLE_S):
                await stream.send_all(encode_response(None, Failure(INVALID_PARAMS, view)) + b"\n")
            return
        identity = Identity(OWNER, preamble.host or "stdio")
        host = LineHost(stream, identity, self._router, self._hosts, preamble, view=view, received=rest)
        shim = None if preamble.host == COMMAND_LINE else find_process(peer_pid(stream.socket))
        attached = Counter([] if shim is None else [shim])
        self._shims += attached
        try:
            await host.serve()
        finally:
            self._shims -= attached

    def _view(self, preamble: Preamble) -> View | str:
        """The view that a shim asks for, or why there is none."""
        if preamble.upstream is not None and preamble.profile is not None:
            return "A single server has no profiles: give --upstream or --profile, not both"
        if preamble.profile is not None:
            profiles = self._hosts.profiles
            found = find_profile(f"{PROFILE_MARK}{preamble.profile}", profiles.profiles)
            known = ", ".join(profiles.profiles) or "none"
            return found or f"There is no profile {preamble.profile!r} in this hub; there are: {known}"
        view = EVERYTHING if preamble.upstream is None else self._router.live.find_view(preamble.upstream)
        if view is None:
            return f"There is no server {preamble.upstream!r} in this hub; `hubd status` lists them"
        return view
