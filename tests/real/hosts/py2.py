"""A host on the modern Python SDK; `mode` chooses its era."""

from common import Host, run
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import PromptReference, ResourceTemplateReference


class Py2(Host):
    async def main(self):
        plan = self.plan
        if "url" in plan:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {plan['token']}"})
            async with http:
                return await self.talk(streamable_http_client(plan["url"], http_client=http))
        command, *args = plan["command"]
        return await self.talk(StdioServerParameters(command=command, args=args, env=plan["env"]))

    async def talk(self, server):
        client = Client(server, mode=self.plan["mode"], logging_callback=self.on_log, log_level="info")
        async with client:
            if self.plan["mode"] == "legacy":
                await client.set_logging_level("info")
            return await self.walk(client, client.protocol_version)

    async def tools(self, client):
        return await client.list_tools()

    async def resources(self, client):
        return await client.list_resources()

    async def templates(self, client):
        return await client.list_resource_templates()

    async def prompts(self, client):
        return await client.list_prompts()

    async def call(self, client, name, arguments):
        return await client.call_tool(name, arguments, progress_callback=self.on_progress)

    async def read(self, client, uri):
        return await client.read_resource(uri)

    async def prompt(self, client, name, arguments):
        return await client.get_prompt(name, arguments)

    async def complete(self, client, ref, argument):
        kind = PromptReference if ref["type"] == "ref/prompt" else ResourceTemplateReference
        return await client.complete(kind(**ref), argument)


run(Py2)
