"""A host on the legacy Python SDK that signs in at the hub's authorization server."""

import anyio
import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from signing import PLAN, Storage, metadata, open_page, sent_back, show


async def came_back():
    found = await sent_back()
    return found["code"], found.get("state")


async def main():
    client = OAuthClientMetadata(**metadata())
    auth = OAuthClientProvider(PLAN["url"], client, Storage(), open_page, came_back)
    async with (
        httpx.AsyncClient(auth=auth, timeout=60) as http,
        streamable_http_client(PLAN["url"], http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        show(await session.call_tool(PLAN["tool"], PLAN["arguments"]))


anyio.run(main)
