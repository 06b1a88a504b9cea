"""A host on the modern Python SDK that signs in at the hub's authorization server."""

import anyio
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from signing import PLAN, Storage, metadata, open_page, sent_back, show


async def came_back():
    found = await sent_back()
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


async def main():
    client = OAuthClientMetadata(**metadata())
    auth = OAuthClientProvider(PLAN["url"], client, Storage(), open_page, came_back)
    async with (
        create_mcp_http_client(auth=auth) as http,
        Client(streamable_http_client(PLAN["url"], http_client=http)) as host,
    ):
        show(await host.call_tool(PLAN["tool"], PLAN["arguments"]))


anyio.run(main)
