"""`approving.py` on the modern Python SDK."""

from approving import run
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def connect(stack, plan, on_elicitation):
    if "url" in plan:
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {plan['token']}"})
        server = streamable_http_client(plan["url"], http_client=await stack.enter_async_context(http))
    else:
        command, *args = plan["command"]
        server = StdioServerParameters(command=command, args=args, env=plan["env"])
    return await stack.enter_async_context(Client(server, mode="auto", cache=None, elicitation_callback=on_elicitation))


run(connect)
