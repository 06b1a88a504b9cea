"""A host on the legacy Python SDK that has roots: `rooted.py URL ROOT...`. It obeys lines of standard input:

    tools | call NAME | changed | heard | move ROOT...

and prints one line of JSON for each; `changed` waits until its list of tools differs from the last one, `heard`
names all notifications so far.
"""

import json
import sys

import anyio
import mcp.client.streamable_http as transport
import mcp.types as types
from common import plain
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

transport.MAX_RECONNECTION_ATTEMPTS = 100
"""The SDK gives up after two seconds, and on a busy machine a hub takes longer to be started again."""


async def main(url, *roots):
    current = list(roots)
    methods = []
    hear, heard = anyio.create_memory_object_stream(100)

    async def on_message(message):
        if isinstance(message, types.ServerNotification):
            methods.append(message.root.method)
            if isinstance(message.root, types.ToolListChangedNotification):
                await hear.send(None)

    async def list_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=root) for root in current])

    async with (
        streamable_http_client(url) as (read, write, _),
        ClientSession(read, write, message_handler=on_message, list_roots_callback=list_roots) as session,
    ):
        await session.initialize()
        say({"ready": True})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            match line.split():
                case ["tools"]:
                    say([tool.name for tool in (await session.list_tools()).tools])
                case ["call", name]:
                    say(plain(await session.call_tool(name, {"text": "hello"})))
                case ["changed"]:
                    with anyio.fail_after(30):
                        say(await heard.receive())
                case ["heard"]:
                    say(methods)
                case ["move", *moved]:
                    current[:] = moved
                    say(await session.send_roots_list_changed())


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


anyio.run(main, *sys.argv[1:])
