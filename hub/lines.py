"""The unix socket for hosts: who connects, with which first line, served by `hub.downstream` until it leaves.

The counterpart of `hub.http_server` for shims.
"""

import logging
import os
from contextlib import suppress
from typing import Final

import trio

from hub.accept import Acceptor, share_of_descriptors
from hub.downstream import serve_lines
from hub.hub import Hub
from hub.link.exchange import OWNER, Identity
from hub.preamble import Preamble, read_preamble
from hub.sockets import peer_uid
from hub.wire.jsonrpc import Failure, encode_response
from hub.wire.mcp import INVALID_PARAMS

log = logging.getLogger("hubd.lines")

PREAMBLE_S: Final = 10.0
MAX_CONNECTIONS: Final = 256
"""Or a quarter of the descriptors, if that is less."""
ONLY_PROFILE: Final = "default"


class LineServer:
    """Serves the shims of this user. `drain` lets their running calls finish."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._accepting = trio.CancelScope()
        self._acceptor = Acceptor("hosts on the unix socket", min(MAX_CONNECTIONS, share_of_descriptors(4)))

    def __repr__(self) -> str:
        return f"<LineServer [{self._acceptor.connections} connections]>"

    async def serve(
        self, listener: trio.SocketListener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Accept and serve. Cancellation: ends every connection; what hosts have asked for is cancelled."""
        async with trio.open_nursery() as handlers:
            task_status.started()
            with self._accepting:
                await self._acceptor.serve(listener, self._serve, handlers)

    async def drain(self) -> None:
        """Take no more connections, and return when no call of a host is running."""
        self._accepting.cancel()
        await self._hub.downstreams.quiet()

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
        if complaint := self._complaint(preamble):
            log.info("refused a host: %s", complaint)
            with suppress(trio.BrokenResourceError), trio.move_on_after(PREAMBLE_S):
                await stream.send_all(encode_response(None, Failure(INVALID_PARAMS, complaint)) + b"\n")
            return
        identity = Identity(OWNER, preamble.host or "stdio")
        hub = self._hub
        await serve_lines(stream, identity, hub.router, hub.downstreams, scope=preamble.upstream, received=rest)

    def _complaint(self, preamble: Preamble) -> str | None:
        """Why a host cannot have what its shim asks for."""
        if preamble.upstream is not None and not self._hub.router.knows_scope(preamble.upstream):
            return f"There is no upstream {preamble.upstream!r} in this hub; `hubd status` lists them"
        if preamble.profile not in (None, ONLY_PROFILE):
            return f"There is no profile {preamble.profile!r} in this hub; leave --profile out to have everything"
        return None
