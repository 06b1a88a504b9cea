"""A host on the modern Python SDK whose user is sent to a page: `VISIT URL MESSAGE`, then `RESULT TEXT`. The plan is
that of common.py, without steps; `tool` is called."""

import json
import sys
from contextlib import AsyncExitStack

import anyio
import mcp.types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

PLAN = json.loads(sys.argv[1])


async def on_elicitation(context, params):
    sys.stdout.write(f"VISIT {params.url} {params.message}\n")
    sys.stdout.flush()
    return types.ElicitResult(action="accept")


async def main():
    async with AsyncExitStack() as stack:
        if "url" in PLAN:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {PLAN['token']}"})
            server = streamable_http_client(PLAN["url"], http_client=await stack.enter_async_context(http))
        else:
            server = StdioServerParameters(command=PLAN["command"][0], args=PLAN["command"][1:], env=PLAN["env"])
        client = Client(server, mode="auto", cache=None, elicitation_callback=on_elicitation)
        host = await stack.enter_async_context(client)
        result = await host.call_tool(PLAN["tool"], {})
        sys.stdout.write(f"RESULT {result.content[0].text}\n")


anyio.run(main)
