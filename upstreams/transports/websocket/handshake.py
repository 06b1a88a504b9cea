"""Opening handshake of a WebSocket (RFC 6455 4.1): subprotocol `mcp` is offered and its absence accepted, nothing is
compressed, redirects are not followed."""

from collections.abc import Mapping
from typing import Final

import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import AcceptConnection, RejectConnection, Request
from wsproto.handshake import H11Handshake
from wsproto.utilities import RemoteProtocolError

from hub.link import hub_errors
from upstreams.fetch.connection import AnyStream, close
from upstreams.session_contract import SessionTerms
from upstreams.transports.connect_to_url import CannotConnect, Url, fields_to_send, reach

SUBPROTOCOL: Final = "mcp"
ANSWER_S: Final = 10.0
"""Time limit for a server to answer the handshake."""
RECEIVE_BYTES: Final = 4 << 10
_NEVER: Final = ("origin", "sec-websocket-")
"""Beginnings of fields that are not sent: a browser's, and those of the handshake itself."""


async def open_websocket(
    name: str, url: Url, headers: Mapping[str, str], terms: SessionTerms
) -> tuple[AnyStream, Connection]:
    """A connection to the server `name`, once more with other headers if it refuses these. Raises HubError: there is
    none. Cancellation: leaves nothing open."""
    stream, answer = await _attempt(name, url, headers)
    if answer == 401 and terms.renewed_headers and (others := await terms.renewed_headers(headers)) is not None:
        stream, answer = await _attempt(name, url, others)
    if isinstance(answer, int):
        raise _refusal(name, answer)
    return stream, answer


async def _attempt(name: str, url: Url, headers: Mapping[str, str]) -> tuple[AnyStream, Connection | int]:
    """A stream and the connection over it, or the status by which the server refuses; the stream is closed then."""
    where = f"The server {name} cannot be reached at {url.origin.replace('http', 'ws', 1)}"
    try:
        fields = [field for key, field in fields_to_send(headers).items() if not key.startswith(_NEVER)]
        extra = [(key.encode("ascii"), value.encode("latin-1")) for key, value in fields]
        handshake = H11Handshake(ConnectionType.CLIENT)
        request = handshake.send(Request(url.authority, url.target, subprotocols=[SUBPROTOCOL], extra_headers=extra))
    except ValueError as error:
        raise hub_errors.UpstreamUnavailable(f"{name} is configured wrongly: {error}", upstream=name) from None
    try:
        stream = await reach(url, tunnels=True)
    except CannotConnect as error:
        raise hub_errors.UpstreamUnavailable(f"{where}: {error}", upstream=name) from None
    answer: Connection | int | str = f"no answer to the WebSocket handshake within {ANSWER_S:.0f} seconds"
    try:
        with trio.move_on_after(ANSWER_S):
            answer = await _exchange(stream, handshake, request)
    finally:
        if not isinstance(answer, Connection):
            close(stream)
    if isinstance(answer, str):
        raise hub_errors.UpstreamUnavailable(f"{where}: {answer}", upstream=name)
    return stream, answer


async def _exchange(stream: AnyStream, handshake: H11Handshake, request: bytes) -> Connection | int | str:
    """The connection, a status, or why there is neither."""
    try:
        await stream.send_all(request)
        while data := bytes(await stream.receive_some(RECEIVE_BYTES)):
            handshake.receive_data(data)
            for event in handshake.events():
                if isinstance(event, AcceptConnection) and handshake.connection is not None:
                    return handshake.connection
                if isinstance(event, RejectConnection):
                    return event.status_code
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    except (RemoteProtocolError, ValueError):  # the latter: bytes that are no ASCII
        return "what answers there is no WebSocket server"
    return "it closed the connection in the WebSocket handshake"


def _refusal(name: str, status: int) -> hub_errors.HubError:
    """The error of a server that refuses the handshake."""
    if status == 401:
        text = f"{name} wants to know who asks (HTTP 401): set `headers.Authorization` in its configuration"
        return hub_errors.UpstreamUnauthorized(text, upstream=name)
    if status == 403:
        return hub_errors.UpstreamDenied(f"{name} refuses access with these credentials (403)", upstream=name)
    if status in (429, 503):
        return hub_errors.Overloaded(f"{name} is overloaded (HTTP {status})", upstream=name)
    text = f"{name} answered the WebSocket handshake with HTTP status {status}"
    if 300 <= status < 400:
        text += ", a redirect, which is not followed; put the final address into its url"
    elif 200 <= status < 300 or status in (400, 404, 405, 426):
        text += "; is its url the one of a WebSocket endpoint?"
    return hub_errors.UpstreamProtocolError(text, upstream=name)
