"""A host on the legacy Python SDK that knows nothing of hubs and their restarts. Its arguments are a URL, or the
command of a stdio server. It obeys lines of standard input:

    tools | subscribe URI | call NAME [ARGUMENTS] | heard | id

and prints one line of JSON for each; `heard` waits for the next notification, errors are printed as such.
"""

import contextlib
import json
import os
import sys

import anyio
import mcp.types as types
from common import plain
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl


@contextlib.asynccontextmanager
async def connected(address, *arguments):
    if address.startswith("http"):
        async with streamable_http_client(address) as streams:
            yield streams
    else:
        server = StdioServerParameters(command=address, args=list(arguments), env=dict(os.environ))
        async with stdio_client(server) as (read, write):
            yield read, write, None


async def main(*address):
    hear, heard = anyio.create_memory_object_stream(100)

    async def on_message(message):
        if isinstance(message, types.ServerNotification):
            await hear.send(plain(message.root))

    async with (
        connected(*address) as (read, write, get_id),
        ClientSession(read, write, message_handler=on_message) as session,
    ):
        await session.initialize()
        say({"ready": True})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            match line.split():
                case ["tools"]:
                    say([tool.name for tool in (await session.list_tools()).tools])
                case ["subscribe", uri]:
                    say(plain(await session.subscribe_resource(AnyUrl(uri))))
                case ["call", name, *arguments]:
                    try:
                        say(plain(await session.call_tool(name, json.loads("".join(arguments) or "{}"))))
                    except McpError as error:
                        say({"error": plain(error.error)})
                case ["heard"]:
                    with anyio.fail_after(30):
                        say(await heard.receive())
                case ["id"]:
                    say(get_id())


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


anyio.run(main, *sys.argv[1:])
