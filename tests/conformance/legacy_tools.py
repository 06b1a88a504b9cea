"""Tools for the suite's 2026-07-28 scenarios that ask in the legacy way, while the call runs.

They extend the reference server of `mcp` 1.x, whose own tools cover only the legacy scenarios.
"""

import asyncio  # noqa: TID251 - the SDK's server runs on it
from typing import Annotated

from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import McpError
from mcp.shared.message import ServerMessageMetadata
from pydantic import Field

JSON_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED = Field(json_schema_extra={"x-mcp-header": "Region"})
"""An annotation without meaning in this era; hosts of the hub see it."""


async def elicit(ctx: Context, message: str, field: str, kind: str = "string"):
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return (await ctx.session.elicit_form(message, schema, ctx.request_id)).content


async def sample(ctx: Context, text: str, max_tokens: int) -> str:
    question = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    answer = await ctx.session.create_message([question], max_tokens=max_tokens, related_request_id=ctx.request_id)
    return answer.content.text


async def count_roots(ctx: Context) -> int:
    """Ask for roots in a call; `session.list_roots` cannot name the call."""
    request = types.ServerRequest(types.ListRootsRequest())
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return len((await ctx.session.send_request(request, types.ListRootsResult, metadata=related)).roots)


def extend(mcp: FastMCP) -> None:
    """Add the tools and the prompt; replace those that ask without naming their call."""
    tool = mcp.tool(description="Asks as the handshake era does")
    mcp.remove_tool("test_sampling")

    @tool
    async def test_sampling(prompt: str, ctx: Context) -> str:
        return f"LLM response: {await sample(ctx, prompt, 100)}"

    @tool
    async def test_input_required_result_elicitation(ctx: Context) -> str:
        return f"Hello, {await elicit(ctx, 'What is your name?', 'name')}!"

    @tool
    async def test_input_required_result_sampling(ctx: Context) -> str:
        return f"Model said: {await sample(ctx, 'What is the capital of France?', 100)}"

    @tool
    async def test_input_required_result_list_roots(ctx: Context) -> str:
        return f"Client exposed {await count_roots(ctx)} root(s)."

    @tool
    async def test_input_required_result_request_state(ctx: Context) -> str:
        return f"state-ok: {await elicit(ctx, 'Please confirm', 'ok', 'boolean')}"

    @tool
    async def test_input_required_result_tampered_state(ctx: Context) -> str:
        return f"state-ok: {await elicit(ctx, 'Please confirm', 'ok', 'boolean')}"

    @tool
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        name = elicit(ctx, "What is your name?", "name")
        return f"All inputs received: {await asyncio.gather(name, sample(ctx, 'Greet', 50), count_roots(ctx))}"

    @tool
    async def test_input_required_result_multi_round(ctx: Context) -> str:
        name = await elicit(ctx, "Step 1: What is your name?", "name")
        return f"{name} likes {await elicit(ctx, 'Step 2: What is your favorite color?', 'color')}."

    @tool
    async def test_input_required_result_capabilities(ctx: Context) -> str:
        able = ctx.session.client_params.capabilities
        asked = [sample(ctx, "Say hello", 50)] if able.sampling else []
        asked += [elicit(ctx, "What is your name?", "name")] if able.elicitation else []
        return str(await asyncio.gather(*asked, return_exceptions=True))

    @tool
    async def test_streaming_elicitation(ctx: Context) -> str:
        return f"elicitation {await elicit(ctx, 'A word?', 'response')}"

    @tool
    async def test_logging_tool(ctx: Context) -> str:
        await ctx.info("test_logging_tool ran")
        return "logged"

    @tool
    async def test_x_mcp_header(region: Annotated[str, MIRRORED] = "<none>") -> str:
        return f"region={region}"

    @tool
    async def json_schema_2020_12_tool() -> str:
        return "json_schema_2020_12_tool"

    mcp._tool_manager._tools["json_schema_2020_12_tool"].parameters = JSON_SCHEMA_2020_12

    @mcp.prompt(description="Asks as the handshake era does")
    async def test_input_required_result_prompt(ctx: Context) -> str:
        return f"Use the following context: {await elicit(ctx, 'What context?', 'context')}"

    declare_everything(mcp._mcp_server)
    announce_changes(mcp)
    tell_not_found(mcp)


def declare_everything(server: Server) -> None:
    """Declare changing lists and subscriptions, which the SDK does not declare itself."""
    changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    capabilities = server.get_capabilities

    def declared(_: NotificationOptions, experimental: dict) -> types.ServerCapabilities:
        found = capabilities(changes, experimental)
        found.resources.subscribe = True
        return found

    server.get_capabilities = declared


def announce_changes(mcp: FastMCP) -> None:
    """Add tools that change the lists, and notify."""
    tools, prompts = mcp._tool_manager._tools, mcp._prompt_manager._prompts

    @mcp.tool(description="Changes a list")
    async def test_trigger_tool_change(ctx: Context) -> str:
        if tools.pop("test_dynamic_tool", None) is None:
            mcp.add_tool(lambda: "dynamic", name="test_dynamic_tool", description="dynamic")
        await ctx.session.send_tool_list_changed()
        return "tool list changed"

    @mcp.tool(description="Changes a list")
    async def test_trigger_prompt_change(ctx: Context) -> str:
        if prompts.pop("test_dynamic_prompt", None) is None:
            mcp.prompt("test_dynamic_prompt", description="dynamic")(lambda: "dynamic")
        await ctx.session.send_prompt_list_changed()
        return "prompt list changed"


def tell_not_found(mcp: FastMCP) -> None:
    """Give unknown names the code of the specification; this SDK has code 0 for every failure."""
    handlers = mcp._mcp_server.request_handlers
    read = handlers[types.ReadResourceRequest]

    async def handle(request: types.ReadResourceRequest):
        try:
            return await read(request)
        except ValueError as error:
            data = {"uri": str(request.params.uri)}
            raise McpError(types.ErrorData(code=-32002, message="Resource not found", data=data)) from error

    handlers[types.ReadResourceRequest] = handle
