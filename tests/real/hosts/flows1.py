"""The host of test_flows.py on the legacy Python SDK."""

from contextlib import asynccontextmanager

import anyio
import httpx
import mcp.types as types
from common import plain, run
from flows import Flows
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

URL_REQUIRED = -32042


class Flows1(Flows):
    types = types
    uri = AnyUrl

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
        async with ClientSession(
            read,
            write,
            logging_callback=self.on_log,
            sampling_callback=self.on_sampling,
            sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
            elicitation_callback=self.on_elicitation,
            list_roots_callback=self.on_roots,
            message_handler=self.on_message,
        ) as session:
            opened = await session.initialize()
            await session.set_logging_level("warning")
            return await self.walk(session, opened.protocolVersion)

    async def on_sampling(self, context, params):
        answer = self.sampled(plain(params))
        kind = types.CreateMessageResultWithTools if isinstance(answer["content"], list) else types.CreateMessageResult
        return kind.model_validate(answer)

    async def on_elicitation(self, context, params):
        return types.ElicitResult.model_validate(self.elicited(plain(params)))

    async def on_roots(self, context):
        return types.ListRootsResult.model_validate(self.rooted())

    async def on_message(self, message):
        if isinstance(message, types.ServerNotification):
            self.hear(plain(message))

    async def tell_roots(self, session):
        await session.send_roots_list_changed()

    async def url_required(self, session, upstream, scheme):
        """Visit the page and call again, which this SDK leaves to its user."""
        since = len(self.told)
        try:
            return await super().url_required(session, upstream, scheme)
        except McpError as error:
            if error.error.code != URL_REQUIRED:
                raise
            (page,) = error.error.data["elicitations"]
        id = page["elicitationId"]
        await self.heard("notifications/elicitation/complete", since, lambda params: params["elicitationId"] == id)
        return {"url": page["url"], "id": id, **await super().url_required(session, upstream, scheme)}

    @asynccontextmanager
    async def watching(self, session, uri):
        since = len(self.told)

        async def next_update():
            return (await self.heard("notifications/resources/updated", since))["uri"]

        await session.subscribe_resource(AnyUrl(uri))
        yield next_update
        await session.unsubscribe_resource(AnyUrl(uri))

    @asynccontextmanager
    async def watching_tools(self, session):
        since = len(self.told)

        async def next_change():
            nonlocal since
            await self.heard("notifications/tools/list_changed", since)
            since = len(self.told)

        yield next_change

    async def cancel_call(self, session, name, arguments):
        """Cancel a call by a notification, which this SDK leaves to its user."""
        started = anyio.Event()

        async def on_progress(*_):
            started.set()

        id = session._request_id
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: session.call_tool(name, arguments, progress_callback=on_progress))
            await started.wait()
            params = types.CancelledNotificationParams(requestId=id, reason="enough")
            await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
            tasks.cancel_scope.cancel()


run(Flows1)
