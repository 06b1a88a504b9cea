"""The reference upstream: the example server of the Python SDK, whose interpreter runs this file.

    python reference.py SOURCE [--stdio | --ws PACKAGES] [--only modern|legacy]

SOURCE is the unpacked source distribution. Over HTTP, or by the SDK's own transport over a WebSocket, it listens on a
free port and prints its URL. PACKAGES is where the package `websockets` is, which the 1.x SDK does not bring. `--only`
puts a filter in front that refuses the other era the way a strict server does.
"""

import argparse
import json
import logging
import socket
import sys
from pathlib import Path

import uvicorn

MODERN = "2026-07-28"


def refusal(only: str, message: dict) -> dict | None:
    """The error with which a server of one era refuses `message`; None: it is of that era."""
    meta = (message.get("params") or {}).get("_meta") or {}
    requested = meta.get("io.modelcontextprotocol/protocolVersion")
    if only == "modern" and message["method"] == "initialize" and requested is None:
        wanted = (message.get("params") or {}).get("protocolVersion", "unknown")
        data = {"supported": [MODERN], "requested": wanted}
        return {"code": -32022, "message": "Unsupported protocol version", "data": data}
    if only == "legacy" and requested is not None:
        return {"code": -32600, "message": "Bad Request: Missing session ID"}
    return None


class OneEra:
    """ASGI filter: requests of the other era are answered 400."""

    def __init__(self, app, only: str) -> None:
        self.app = app
        self.only = only

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        error = None
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if isinstance(message, dict) and "method" in message:
            error = refusal(self.only, message)
        if error is not None:
            answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": answer})
            return
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return given.pop() if given else await receive()

        await self.app(scope, again, send)


def handshake_era(module) -> bool:
    """Whether the server uses the SDK's last legacy line (1.x)."""
    return hasattr(module.mcp, "settings") and hasattr(module.mcp.settings, "json_response")


def extend(module, only: str | None) -> None:
    """Give a server of one era tools that ask in the way of that era, for every scenario of the suite, and let tools of
    both eras really change lists. A server of both eras keeps its own tools."""
    if handshake_era(module):
        import legacy_tools

        legacy_tools.extend(module.mcp)
    else:
        import modern_tools

        modern_tools.announce_changes(module.mcp)
        if only == "modern":
            modern_tools.ask_by_results(module)


def application(module):
    """The server as an ASGI application, with the event store and retry time its own `main` would use."""
    if handshake_era(module):
        return module.mcp.streamable_http_app()
    return module.mcp.streamable_http_app(event_store=module.event_store, retry_interval=100)


def over_websocket(module):
    """The server of the 1.x SDK as an ASGI application, with a session for each WebSocket."""
    from mcp.server.websocket import websocket_server

    lowlevel = module.mcp._mcp_server

    async def answer(scope, receive, send) -> None:
        async with websocket_server(scope, receive, send) as (read, write):
            await lowlevel.run(read, write, lowlevel.create_initialization_options())

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--ws", type=Path)
    parser.add_argument("--only", choices=("modern", "legacy"))
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    sys.path.insert(0, str(options.source / "examples" / "servers" / "everything-server"))
    from mcp_everything_server import server

    extend(server, options.only)
    if options.stdio:
        server.mcp.run(transport="stdio")
        return
    if options.ws:
        sys.path.append(str(options.ws))  # behind all that this interpreter has itself
    app = over_websocket(server) if options.ws else application(server)
    if options.only:
        app = OneEra(app, options.only)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it where it makes the socket
    scheme = "ws" if options.ws else "http"
    sys.stdout.write(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    lifespan = "off" if options.ws else "auto"
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan=lifespan)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
