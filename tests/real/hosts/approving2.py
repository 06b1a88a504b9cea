"""A host on the modern Python SDK whose user is asked for approvals. The plan says how to connect as that of common.py
does; `tool` is called `calls` times with `arguments`; the user gives the `answers` to the hub's questions, and `form`
to those of the server. Printed is what was asked, and what came of each call."""

import json
import sys
from contextlib import AsyncExitStack

import anyio
import mcp.types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

PLAN = json.loads(sys.argv[1])


async def main():
    asked, results, answers = [], [], list(PLAN["answers"])

    async def on_elicitation(context, params):
        asked.append(params.message)
        is_hub = params.message.startswith("hubd: ")
        return types.ElicitResult.model_validate(answers.pop(0) if is_hub else PLAN["form"])

    async with AsyncExitStack() as stack:
        if "url" in PLAN:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {PLAN['token']}"})
            server = streamable_http_client(PLAN["url"], http_client=await stack.enter_async_context(http))
        else:
            server = StdioServerParameters(command=PLAN["command"][0], args=PLAN["command"][1:], env=PLAN["env"])
        client = Client(server, mode="auto", cache=None, elicitation_callback=on_elicitation)
        host = await stack.enter_async_context(client)
        for _ in range(PLAN["calls"]):
            result = await host.call_tool(PLAN["tool"], PLAN["arguments"])
            results.append([bool(result.is_error), result.content[0].text])
    sys.stdout.write(json.dumps({"asked": asked, "results": results}) + "\n")


anyio.run(main)
