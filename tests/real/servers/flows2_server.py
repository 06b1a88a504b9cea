"""A server on the modern Python SDK with a tool for every flow: python flows2_server.py NAME [--http].

NAME is the scheme of its URIs. Over HTTP it listens on a free port and prints its URL. The same tools are in
flows1_server.py, for the other era. Tasks are an extension, which the SDK lets servers bring themselves.
"""

import argparse
import secrets
import socket
import sys
from collections import defaultdict
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.apps import Apps
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsResult,
    RequestParams,
    SamplingMessage,
    TextContent,
    Tool,
)
from pydantic import BaseModel

LIMIT_S = 20
TASKS = "io.modelcontextprotocol/tasks"

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--http", action="store_true")
options = parser.parse_args()
PAGE = f"ui://{options.name}/app.html"
BOARD = f"{options.name}://board"


class Name(BaseModel):
    name: str


def message(text):
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def form(text):
    return ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=Name.model_json_schema()))


def told(answer):
    """An answer to `form`, as text."""
    return f"accept {answer.content['name']}" if answer.action == "accept" else answer.action


# --- tasks ------------------------------------------------------------------------------------------------------------


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Tasks(Extension):
    """Tasks that end at the second poll, or when they get their answer."""

    identifier = TASKS

    def __init__(self):
        self.tasks = {}

    def methods(self):
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/update", TaskParams, self.update),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]

    async def intercept_tool_call(self, params, ctx, call_next):
        if params.name not in ("task", "task_asks"):
            return await call_next(ctx)
        declared = ctx.session.client_capabilities
        if TASKS not in ((declared and declared.extensions) or {}):
            raise MCPError(
                code=-32021, message="only as a task", data={"requiredCapabilities": {"extensions": {TASKS: {}}}}
            )
        id = secrets.token_urlsafe(24)
        self.tasks[id] = {"asks": params.name == "task_asks", "looks": 0, "answer": None, "cancelled": False}
        return {"resultType": "task", **self.facts(id, "working")}

    def facts(self, id, status):
        now = datetime.now(UTC).isoformat()
        return {
            "taskId": id,
            "status": status,
            "statusMessage": "half done",
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttlMs": 60_000,
            "pollIntervalMs": 100,
        }

    def find(self, params):
        if params.task_id not in self.tasks:
            raise MCPError(code=-32602, message="no such task")
        return self.tasks[params.task_id]

    async def get(self, ctx, params):
        task, id = self.find(params), params.task_id
        task["looks"] += 1
        if task["cancelled"]:
            return self.facts(id, "cancelled")
        if task["asks"] and task["answer"] is None:
            asked = form("Go on?").model_dump(mode="json", by_alias=True, exclude_none=True)
            return {**self.facts(id, "input_required"), "inputRequests": {"go": asked}}
        if task["looks"] < 2:
            return self.facts(id, "working")
        answer = task["answer"]
        text = f"task {answer['action']} {answer.get('content', {}).get('name')}" if task["asks"] else "task done"
        return {**self.facts(id, "completed"), "result": {"content": [{"type": "text", "text": text}]}}

    async def update(self, ctx, params):
        self.find(params)["answer"] = params.input_responses["go"]
        return {}

    async def cancel(self, ctx, params):
        self.find(params)["cancelled"] = True
        return {}


apps = Apps()


@apps.tool(resource_uri=PAGE, meta={"ui/resourceUri": PAGE})
def clock() -> str:
    """Has a view."""
    return "noon"


apps.add_html_resource(PAGE, "<!doctype html><title>A clock</title>", prefers_border=True)
server = MCPServer(f"{options.name}-server", log_level="WARNING", extensions=[apps, Tasks()])


@server.tool(structured_output=False)
async def task() -> str:
    """Takes its time."""
    raise AssertionError("only as a task")


@server.tool(structured_output=False)
async def task_asks() -> str:
    """Takes its time, and asks the user."""
    raise AssertionError("only as a task")


# --- questions --------------------------------------------------------------------------------------------------------


def ask_model(text: str) -> Sample:
    return Sample([message(text)], max_tokens=50)


@server.tool()
async def sample(text: str, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Asks the model."""
    return f"{answer.model} said {answer.content.text} ({answer.stop_reason})"


def ask_model_with_tools(text: str) -> Sample:
    tool = Tool(name="weather", input_schema={"type": "object", "properties": {"city": {"type": "string"}}})
    return Sample([message(text)], max_tokens=50, tools=[tool])


@server.tool()
async def sample_tools(
    text: str, answer: Annotated[CreateMessageResultWithTools, Resolve(ask_model_with_tools)]
) -> str:
    """Asks the model, which may use a tool."""
    said, used = answer.content
    return f"{said.text}: {used.name} {used.input['city']} ({answer.stop_reason})"


def ask_user(text: str) -> Elicit[Name]:
    return Elicit(text, Name)


@server.tool()
async def elicit(text: str, answer: Annotated[ElicitationResult[Name], Resolve(ask_user)]) -> str:
    """Asks the user."""
    return f"accept {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
async def elicit_url(ctx: Context) -> str | InputRequiredResult:
    """Sends the user to a page."""
    if ctx.input_responses:
        return f"url {ctx.input_responses['visit'].action}"
    visit = ElicitRequest(params=ElicitRequestURLParams(message="Sign in", url="https://example.com/sign-in"))
    return InputRequiredResult(input_requests={"visit": visit})


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def roots(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Asks for roots."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def both(ctx: Context) -> str | InputRequiredResult:
    """Asks the user and the model at once."""
    if ctx.input_responses and ctx.request_state == "both":
        user, model = ctx.input_responses["who"], ctx.input_responses["what"]
        return f"{told(user)} and {model.model} said {model.content.text} ({model.stop_reason})"
    what = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message("what")], max_tokens=50))
    return InputRequiredResult(input_requests={"who": form("Who?"), "what": what}, request_state="both")


@server.tool()
async def twice(ctx: Context) -> str | InputRequiredResult:
    """Asks the user, and once more."""
    answers = ctx.input_responses or {}
    if "second" in answers:
        return f"{ctx.request_state}, {told(answers['second'])}"
    if "first" in answers:
        return InputRequiredResult(input_requests={"second": form("Second?")}, request_state=told(answers["first"]))
    return InputRequiredResult(input_requests={"first": form("First?")})


# --- what goes the other way ------------------------------------------------------------------------------------------

states = defaultdict(anyio.Event)


@server.tool()
async def touch(ctx: Context) -> str:
    """Changes a resource."""
    await ctx.notify_resource_updated(BOARD)
    return "touched"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: name, name=name, description="New.")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def progress(steps: int, ctx: Context) -> str:
    """Reports progress at every step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
        await anyio.sleep(0.15)
    return f"{steps} steps"


@server.tool()
async def wait(key: str, ctx: Context) -> str:
    """Waits to be cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep(LIMIT_S)
    except anyio.get_cancelled_exc_class():
        states[key].set()
        raise
    return "nobody cancelled"


@server.tool()
async def cancelled(key: str) -> str:
    """Waits until `wait` was cancelled."""
    with anyio.fail_after(LIMIT_S):
        await states[key].wait()
    return "cancelled"


@server.tool()
async def log(text: str, ctx: Context) -> str:
    """Logs at three levels."""
    for level in ("debug", "warning", "error"):
        await ctx.log(level, f"{level} {text}", logger_name="flows")
    return "logged"


# --- what is read -----------------------------------------------------------------------------------------------------


@server.resource(BOARD)
def board() -> str:
    return "a board"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@server.prompt()
async def brief(ctx: Context) -> list[UserMessage] | InputRequiredResult:
    """Asks the user."""
    if ctx.input_responses:
        return [UserMessage(f"Brief {told(ctx.input_responses['whom'])}.")]
    return InputRequiredResult(input_requests={"whom": form("Whom?")})


@server.completion()
async def complete(ref, argument, context):
    names = ["Ada", "Alan", "Grace"]
    return Completion(values=[name for name in names if name.startswith(argument.value)])


if options.http:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
else:
    server.run(transport="stdio")
