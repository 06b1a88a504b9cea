"""The host of test_flows.py on the modern Python SDK. Its second client knows tasks, the first waits for results."""

from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import mcp.types as types
from common import plain, run
from flows import Flows
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim, advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import ConfigDict


class Task(types.Result):
    """A task in place of the result of a running call."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: int | None = None


class TaskParams(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Look(types.Request[TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class Update(types.Request[TaskParams, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: TaskParams


class Anything(types.Result):
    model_config = ConfigDict(extra="allow")


class Tasks(ClientExtension):
    """Waits for tasks to end, and records their states."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, host):
        self.host = host
        self.statuses = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        while True:
            look = Look(params=TaskParams(task_id=task.task_id))
            seen = plain(await context.session.send_request(look, Anything))
            self.statuses.append(seen["status"])
            if seen["status"] == "input_required":
                answers = {key: self.host.elicited(asked["params"]) for key, asked in seen["inputRequests"].items()}
                params = TaskParams(task_id=task.task_id, input_responses=answers)
                await context.session.send_request(Update(params=params), Anything)
            elif seen["status"] != "working":
                return types.CallToolResult.model_validate(seen["result"])
            await anyio.sleep((task.poll_interval_ms or 100) / 1000)


class Flows2(Flows):
    types = types
    uri = str

    @asynccontextmanager
    async def client(self, **more):
        plan = self.plan
        more |= {
            "mode": "auto",
            "cache": None,
            "logging_callback": self.on_log,
            "log_level": "warning",
            "sampling_callback": self.on_sampling,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "elicitation_callback": self.on_elicitation,
            "list_roots_callback": self.on_roots,
        }
        if "url" in plan:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {plan['token']}"})
            async with http, Client(streamable_http_client(plan["url"], http_client=http), **more) as client:
                yield client
        else:
            command, *args = plan["command"]
            server = StdioServerParameters(command=command, args=args, env=plan["env"])
            async with Client(server, **more) as client:
                yield client

    async def main(self):
        self.tasks = Tasks(self)
        apps = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
        async with self.client(extensions=[apps]) as client, self.client(extensions=[self.tasks]) as self.other:
            return await self.walk(client, client.protocol_version)

    async def on_sampling(self, context, params):
        answer = self.sampled(plain(params))
        kind = types.CreateMessageResultWithTools if isinstance(answer["content"], list) else types.CreateMessageResult
        return kind.model_validate(answer)

    async def on_elicitation(self, context, params):
        return types.ElicitResult.model_validate(self.elicited(plain(params)))

    async def on_roots(self, context):
        return types.ListRootsResult.model_validate(self.rooted())

    @asynccontextmanager
    async def watching(self, client, uri):
        async with client.listen(resource_subscriptions=[uri]) as subscription:

            async def next_update():
                return (await anext(subscription)).uri

            yield next_update

    @asynccontextmanager
    async def watching_tools(self, client):
        async with client.listen(tools_list_changed=True) as subscription:
            yield subscription.__anext__

    async def cancel_call(self, client, name, arguments):
        started = anyio.Event()

        async def on_progress(*_):
            started.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.call_tool(name, arguments, progress_callback=on_progress))
            await started.wait()
            tasks.cancel_scope.cancel()

    async def task_shown(self, client, upstream, scheme):
        return await self.see_task(upstream, "task")

    async def task_asks_shown(self, client, upstream, scheme):
        return await self.see_task(upstream, "task_asks")

    async def see_task(self, upstream, name):
        self.tasks.statuses.clear()
        saw = await self.tool(self.other, upstream, name)
        return {**saw, "statuses": list(dict.fromkeys(self.tasks.statuses))}


run(Flows2)
