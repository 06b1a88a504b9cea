"""FastMCP as a gateway in its quickest form: proxies over clients that stay connected, mounted on one server.

    fastmcp_gateway.py PORT FILE      FILE: an `mcpServers` object

Its own command opens a session for every request. This runs in the virtual environment of FastMCP.
"""

import json
import sys
from contextlib import AsyncExitStack

import anyio
from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy


async def serve(port: int, servers: dict[str, object]) -> None:
    """Connect to all servers, then listen."""
    gateway = FastMCP("gateway")
    async with AsyncExitStack() as stack:
        for name, server in servers.items():
            client = await stack.enter_async_context(Client({"mcpServers": {name: server}}))
            gateway.mount(create_proxy(client), namespace=name)
        await gateway.run_async("http", host="127.0.0.1", port=port, log_level="ERROR", show_banner=False)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        anyio.run(serve, int(sys.argv[1]), json.load(file)["mcpServers"])
