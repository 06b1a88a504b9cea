"""A host on the legacy Python SDK whose user is asked for approvals: see approving2.py."""

import json
import sys
from contextlib import AsyncExitStack

import anyio
import httpx
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

PLAN = json.loads(sys.argv[1])


async def main():
    asked, results, answers = [], [], list(PLAN["answers"])

    async def on_elicitation(context, params):
        asked.append(params.message)
        is_hub = params.message.startswith("hubd: ")
        return types.ElicitResult.model_validate(answers.pop(0) if is_hub else PLAN["form"])

    async with AsyncExitStack() as stack:
        if "url" in PLAN:
            http = httpx.AsyncClient(headers={"Authorization": f"Bearer {PLAN['token']}"}, timeout=60)
            await stack.enter_async_context(http)
            streams = await stack.enter_async_context(streamable_http_client(PLAN["url"], http_client=http))
        else:
            command, *args = PLAN["command"]
            server = StdioServerParameters(command=command, args=args, env=PLAN["env"])
            streams = await stack.enter_async_context(stdio_client(server))
        session = ClientSession(*streams[:2], elicitation_callback=on_elicitation)
        host = await stack.enter_async_context(session)
        await host.initialize()
        for _ in range(PLAN["calls"]):
            result = await host.call_tool(PLAN["tool"], PLAN["arguments"])
            results.append([bool(result.isError), result.content[0].text])
    sys.stdout.write(json.dumps({"asked": asked, "results": results}) + "\n")


anyio.run(main)
