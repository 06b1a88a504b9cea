"""A server on the modern Python SDK with resources that have a `ttlMs`: python ttl_server.py NAME [--http]
[--takes SECONDS].

NAME is the scheme of its URIs: `public` and `private` stay fresh for an hour unless the tool `change` changes them and
notifies subscribers; `brief` stays fresh for a moment. Each text contains its version and the number of reads so far; a
read takes 0.3 s by default. Over HTTP it listens on a free port and prints its URL.
"""

import argparse
import socket
import sys
from collections import Counter

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

HOUR_MS = 3_600_000
BRIEF_MS = 300

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--http", action="store_true")
parser.add_argument("--takes", type=float, default=0.3, metavar="SECONDS")
options = parser.parse_args()
hints = {
    "public": {"ttlMs": HOUR_MS, "cacheScope": "public"},
    "private": {"ttlMs": HOUR_MS, "cacheScope": "private"},
    "brief": {"ttlMs": BRIEF_MS, "cacheScope": "private"},
}
versions: Counter[str] = Counter()
readings: Counter[str] = Counter()


async def hint(ctx, call_next):
    """Put the hints of the resource into the result of a read."""
    result = await call_next(ctx)
    if ctx.method == "resources/read" and "contents" in result:
        return {**result, **hints[result["contents"][0]["uri"].rpartition("/")[2]]}
    return result


server = MCPServer(f"{options.name}-server", log_level="WARNING", middleware=[hint])


async def text(which: str) -> str:
    readings[which] += 1
    said = f"version {versions[which]}, reading {readings[which]}"
    await anyio.sleep(options.takes)
    return said


@server.resource(f"{options.name}://public", mime_type="text/plain")
async def public() -> str:
    return await text("public")


@server.resource(f"{options.name}://private", mime_type="text/plain")
async def private() -> str:
    return await text("private")


@server.resource(f"{options.name}://brief", mime_type="text/plain")
async def brief() -> str:
    return await text("brief")


@server.tool()
def echo(text: str) -> str:
    """Echoes its argument."""
    return text


@server.tool()
async def change(which: str, ctx: Context) -> str:
    """Changes a resource, and notifies."""
    versions[which] += 1
    await ctx.notify_resource_updated(f"{options.name}://{which}")
    return f"version {versions[which]}"


if options.http:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
else:
    server.run(transport="stdio")
