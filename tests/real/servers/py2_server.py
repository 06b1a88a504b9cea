"""An MCP server on the modern Python SDK: python py2_server.py NAME [--http].

NAME is the scheme of its URIs, so that several may stand behind one hub. Over HTTP it listens on a free port and prints
its URL.
"""

import argparse
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Completion, PromptReference

PAUSE_S = 0.05
"""npm clients lose progress that arrives together with the answer: they handle it a turn too late."""

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--http", action="store_true")
options = parser.parse_args()
server = MCPServer(f"{options.name}-server", version="1.2.3", instructions=f"Instructions of {options.name}.")


@server.tool()
def echo(text: str) -> str:
    """Echoes its argument."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Adds, with structured content."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("failed on purpose")


@server.tool()
async def progress(steps: int, ctx: Context) -> str:
    """Reports progress at every step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await anyio.sleep(PAUSE_S)
    return f"{steps} steps"


@server.tool()
async def log(text: str, ctx: Context) -> str:
    """Logs a warning."""
    await ctx.log("warning", text, logger_name="real")
    return "logged"


@server.resource(f"{options.name}://note", mime_type="text/plain")
def note() -> str:
    """A text."""
    return f"note of {options.name}"


@server.resource(f"{options.name}://item/{{id}}")
def item(id: str) -> str:
    """One of many texts."""
    return f"item {id} of {options.name}"


@server.prompt()
def greet(name: str) -> str:
    """Greets a person."""
    return f"Greet {name} from {options.name}."


@server.completion()
async def complete(ref, argument, context) -> Completion | None:
    names = ["Ada", "Alan", "Grace"]
    if isinstance(ref, PromptReference) and argument.name == "name":
        return Completion(values=[name for name in names if name.startswith(argument.value)])
    return None


if options.http:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
else:
    server.run(transport="stdio")
