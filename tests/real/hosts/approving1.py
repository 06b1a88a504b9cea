"""`approving.py` on the legacy Python SDK."""

import httpx
from approving import run
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def connect(stack, plan, on_elicitation):
    if "url" in plan:
        http = httpx.AsyncClient(headers={"Authorization": f"Bearer {plan['token']}"}, timeout=60)
        await stack.enter_async_context(http)
        streams = await stack.enter_async_context(streamable_http_client(plan["url"], http_client=http))
    else:
        command, *args = plan["command"]
        server = StdioServerParameters(command=command, args=args, env=plan["env"])
        streams = await stack.enter_async_context(stdio_client(server))
    host = await stack.enter_async_context(ClientSession(*streams[:2], elicitation_callback=on_elicitation))
    await host.initialize()
    return host


run(connect)
