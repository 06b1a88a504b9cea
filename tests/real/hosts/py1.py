"""A host on the legacy Python SDK."""

import httpx
from common import Host, run
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import PromptReference, ResourceTemplateReference
from pydantic import AnyUrl


class Py1(Host):
    async def main(self):
        plan = self.plan
        if "url" in plan:
            headers = {"Authorization": f"Bearer {plan['token']}"}
            async with (
                httpx.AsyncClient(headers=headers, timeout=60) as http,
                streamable_http_client(plan["url"], http_client=http) as (read, write, _),
            ):
                return await self.talk(read, write)
        command, *args = plan["command"]
        async with stdio_client(StdioServerParameters(command=command, args=args, env=plan["env"])) as (read, write):
            return await self.talk(read, write)

    async def talk(self, read, write):
        async with ClientSession(read, write, logging_callback=self.on_log) as session:
            opened = await session.initialize()
            await session.set_logging_level("info")
            return await self.walk(session, opened.protocolVersion)

    async def tools(self, session):
        return await session.list_tools()

    async def resources(self, session):
        return await session.list_resources()

    async def templates(self, session):
        return await session.list_resource_templates()

    async def prompts(self, session):
        return await session.list_prompts()

    async def call(self, session, name, arguments):
        return await session.call_tool(name, arguments, progress_callback=self.on_progress)

    async def read(self, session, uri):
        return await session.read_resource(AnyUrl(uri))

    async def prompt(self, session, name, arguments):
        return await session.get_prompt(name, arguments)

    async def complete(self, session, ref, argument):
        kind = PromptReference if ref["type"] == "ref/prompt" else ResourceTemplateReference
        return await session.complete(kind(**ref), argument)


run(Py1)
