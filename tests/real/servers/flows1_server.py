"""A server on the legacy Python SDK with a tool for every flow: python flows1_server.py NAME [--http].

NAME is the scheme of its URIs. Over HTTP it listens on a free port and prints its URL. The same tools are in
flows2_server.py, for the other era.
"""

import argparse
import contextlib
import socket
import sys
import warnings
from collections import defaultdict
from weakref import WeakSet

import anyio
import mcp.types as types
import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.shared.message import ServerMessageMetadata
from pydantic import AnyUrl, BaseModel

warnings.simplefilter("ignore", DeprecationWarning)  # the SDK's own tasks
LIMIT_S = 20
VISIT_S = 0.2
"""Seconds that users stay on pages."""

parser = argparse.ArgumentParser()
parser.add_argument("name")
parser.add_argument("--http", action="store_true")
options = parser.parse_args()
server = FastMCP(f"{options.name}-server", log_level="WARNING")
lower = server._mcp_server
lower.experimental.enable_tasks()
PAGE = f"ui://{options.name}/app.html"
BOARD = f"{options.name}://board"


class Name(BaseModel):
    name: str


def message(text):
    return types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))


# --- questions --------------------------------------------------------------------------------------------------------


@server.tool()
async def sample(text: str, ctx: Context) -> str:
    """Asks the model."""
    answer = await ctx.session.create_message([message(text)], max_tokens=50, related_request_id=ctx.request_id)
    return f"{answer.model} said {answer.content.text} ({answer.stopReason})"


@server.tool()
async def sample_tools(text: str, ctx: Context) -> str:
    """Asks the model, which may use a tool."""
    tool = types.Tool(name="weather", inputSchema={"type": "object", "properties": {"city": {"type": "string"}}})
    answer = await ctx.session.create_message(
        [message(text)], max_tokens=50, tools=[tool], related_request_id=ctx.request_id
    )
    said, used = answer.content
    return f"{said.text}: {used.name} {used.input['city']} ({answer.stopReason})"


@server.tool()
async def elicit(text: str, ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit(text, Name)
    return f"accept {answer.data.name}" if answer.action == "accept" else answer.action


@server.tool()
async def elicit_url(ctx: Context) -> str:
    """Sends the user to a page."""
    answer = await ctx.elicit_url("Sign in", "https://example.com/sign-in", "visit-1")
    return f"url {answer.action}"


@server.tool()
async def roots(ctx: Context) -> str:
    """Asks for roots."""
    answer = await ctx.session.send_request(
        types.ServerRequest(types.ListRootsRequest()),
        types.ListRootsResult,
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def roots_aside(ctx: Context) -> str:
    """Asks for roots as the SDK does: without naming the request."""
    answer = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def both(ctx: Context) -> str:
    """Asks the user and the model at once."""
    answers = {}

    async def ask(tool, text):
        answers[tool] = await tool(text, ctx)

    async with anyio.create_task_group() as questions:
        questions.start_soon(ask, elicit, "Who?")
        questions.start_soon(ask, sample, "what")
    return f"{answers[elicit]} and {answers[sample]}"


@server.tool()
async def twice(ctx: Context) -> str:
    """Asks the user, and once more."""
    return f"{await elicit('First?', ctx)}, {await elicit('Second?', ctx)}"


visited = set()


@server.tool()
async def visit(key: str, ctx: Context) -> str:
    """Fails until the user has visited a page, and notifies after the visit."""
    if key in visited:
        return f"visited {key}"

    async def done():
        await anyio.sleep(VISIT_S)
        visited.add(key)
        await ctx.session.send_elicit_complete(key)

    background.start_soon(done)
    page = types.ElicitRequestURLParams(message="Sign in", url=f"https://example.com/{key}", elicitationId=key)
    raise UrlElicitationRequiredError([page])


# --- what goes the other way ------------------------------------------------------------------------------------------

watchers = defaultdict(WeakSet)
grown = set()
states = defaultdict(anyio.Event)


@lower.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    watchers[str(uri)].add(lower.request_context.session)


@lower.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    watchers[str(uri)].discard(lower.request_context.session)


@server.tool()
async def touch() -> str:
    """Changes a resource."""
    for session in list(watchers[BOARD]):
        await session.send_resource_updated(AnyUrl(BOARD))
    return "touched"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: name, name=name, description="New.")
    await ctx.session.send_tool_list_changed()
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


@lower.set_logging_level()
async def set_level(level: types.LoggingLevel) -> None:
    """Ignores the level and sends everything, so that the hub has to filter."""


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


@server.resource(PAGE, mime_type="text/html;profile=mcp-app", meta={"ui": {"prefersBorder": True}})
def page() -> str:
    return "<!doctype html><title>A clock</title>"


@server.tool(meta={"ui": {"resourceUri": PAGE}, "ui/resourceUri": PAGE})
def clock() -> str:
    """Has a view."""
    return "noon"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@server.prompt()
async def brief(ctx: Context) -> str:
    """Asks the user."""
    return f"Brief {await elicit('Whom?', ctx)}."


@server.completion()
async def complete(ref, argument, context):
    names = ["Ada", "Alan", "Grace"]
    return types.Completion(values=[name for name in names if name.startswith(argument.value)])


# --- tasks ------------------------------------------------------------------------------------------------------------

TASKS = ("task", "task_asks")


@server.tool()
async def task(ctx: Context) -> str:
    """Takes its time."""
    raise AssertionError("only as a task")


@server.tool()
async def task_asks(ctx: Context) -> str:
    """Takes its time, and asks the user."""
    raise AssertionError("only as a task")


@lower.list_tools()
async def list_tools():
    tools = await server.list_tools()
    for tool in tools:
        if tool.name in TASKS:
            tool.execution = types.ToolExecution(taskSupport=types.TASK_REQUIRED)
            tool.outputSchema = None
    return tools


async def plain(work):
    await work.update_status("half done")
    await anyio.sleep(0.2)
    return types.CallToolResult(content=[types.TextContent(type="text", text="task done")])


async def asking(work):
    answer = await work.elicit("Go on?", Name.model_json_schema())
    text = f"task {answer.action} {(answer.content or {}).get('name')}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


@lower.call_tool(validate_input=False)
async def call_tool(name, arguments):
    if name in TASKS:
        context = lower.request_context.experimental
        context.validate_task_mode(types.TASK_REQUIRED)
        return await context.run_task({"task": plain, "task_asks": asking}[name])
    return await server.call_tool(name, arguments)


create_options = lower.create_initialization_options


def with_promises(*args, **kwargs):
    """Declare the capability for `send_tool_list_changed`, which the SDK does not. Subscriptions, which it does not
    declare either, are taken all the same."""
    made = create_options(*args, **kwargs)
    assert not made.capabilities.resources.subscribe
    made.capabilities.tools.listChanged = True
    return made


lower.create_initialization_options = with_promises


@contextlib.asynccontextmanager
async def lasting_tasks():
    """Run tasks independently of sessions; the SDK ends all tasks with any session otherwise."""
    async with run_tasks():
        support.run = contextlib.nullcontext
        yield


support = lower.experimental.task_support
run_tasks = support.run


async def main():
    global background
    async with lasting_tasks(), anyio.create_task_group() as background:
        if not options.http:
            await server.run_stdio_async()
            return
        listener = socket.create_server(("127.0.0.1", 0))
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listener])


anyio.run(main)
