"""A host on fastmcp; `mode` chooses its era."""

from common import Host, run
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp.types import CompleteResult, PromptReference, ResourceTemplateReference


class Fast(Host):
    async def main(self):
        plan = self.plan
        if "url" in plan:
            transport = StreamableHttpTransport(plan["url"], auth=plan["token"])
        else:
            command, *args = plan["command"]
            transport = StdioTransport(command, args, env=plan["env"], keep_alive=False)
        client = Client(transport, mode=plan["mode"], log_handler=self.on_log)
        async with client:
            return await self.walk(client, client.session.protocol_version)

    async def tools(self, client):
        return await client.list_tools_mcp()

    async def resources(self, client):
        return await client.list_resources_mcp()

    async def templates(self, client):
        return await client.list_resource_templates_mcp()

    async def prompts(self, client):
        return await client.list_prompts_mcp()

    async def call(self, client, name, arguments):
        return await client.call_tool_mcp(name, arguments, progress_handler=self.on_progress)

    async def read(self, client, uri):
        return await client.read_resource_mcp(uri)

    async def prompt(self, client, name, arguments):
        return await client.get_prompt_mcp(name, arguments)

    async def complete(self, client, ref, argument):
        kind = PromptReference if ref["type"] == "ref/prompt" else ResourceTemplateReference
        completion = await client.complete(kind(**ref), argument)
        return CompleteResult(completion=completion)


run(Fast)
