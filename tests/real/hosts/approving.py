"""A host whose user is asked for approvals; `approving1.py` and `approving2.py` connect it by the SDK of their era.

The plan says how to connect as that of common.py does; `tool` is called `calls` times with `arguments`; the user gives
the `answers` to the hub's questions, and `form` to those of the server. Printed is what was asked, and what came of
each call.
"""

import json
import sys
from contextlib import AsyncExitStack

import anyio
import mcp.types as types
from common import plain


def run(connect):
    """Follow the plan in the argument with the host that `connect` makes of a stack of contexts, the plan, and what
    answers questions."""
    anyio.run(_follow, connect, json.loads(sys.argv[1]))


async def _follow(connect, plan):
    asked, results, answers = [], [], list(plan["answers"])

    async def on_elicitation(context, params):
        asked.append(params.message)
        is_hub = params.message.startswith("hubd: ")
        return types.ElicitResult.model_validate(answers.pop(0) if is_hub else plan["form"])

    async with AsyncExitStack() as stack:
        host = await connect(stack, plan, on_elicitation)
        for _ in range(plan["calls"]):
            result = plain(await host.call_tool(plan["tool"], plan["arguments"]))
            results.append([result.get("isError", False), result["content"][0]["text"]])
    sys.stdout.write(json.dumps({"asked": asked, "results": results}) + "\n")
