"""A host on the modern Python SDK whose model is shown tools to find and call the others."""

import json

from common import Host, plain, run
from mcp import Client, StdioServerParameters


class Searching(Host):
    def __init__(self, plan):
        super().__init__(plan)
        self.changes = []

    async def main(self):
        command, *args = self.plan["command"]
        server = StdioServerParameters(command=command, args=args, env=self.plan["env"])
        async with Client(server, mode=self.plan["mode"], message_handler=self.on_message, cache=None) as client:
            return {**await self.walk(client, client.protocol_version), "changes": self.changes}

    async def on_message(self, message):
        """Note each notification that a list has changed."""
        method = getattr(message, "method", "")
        if method.endswith("list_changed"):
            self.changes.append(method)

    async def tools(self, client):
        return await client.list_tools()

    async def call(self, client, name, arguments):
        return await client.call_tool(name, arguments, progress_callback=self.on_progress)

    async def wish(self, client, words, tool, arguments):
        """Search in these words and, if the definition of `tool` is among those found, call it as it says."""
        answer = await client.call_tool("hub__find_tools", {"query": words})
        text = answer.content[0].text
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        definition = next(each for each in found if each["name"] == tool)
        assert set(definition["inputSchema"].get("required", ())) <= set(arguments)
        called = await self.call(client, "hub__call_tool", {"name": tool, "arguments": arguments})
        return Wish(len(text.encode()), [each["name"] for each in found], plain(called))


class Wish:
    """What came of a wish."""

    def __init__(self, size, found, result):
        self.told = {"bytes": size, "found": found, "result": result}

    def model_dump(self, **_):
        return self.told


run(Searching)
