"""Tools for the suite's 2025 scenarios, for the reference server of `mcp` 2.x: its own tools ask only in the middle of
the call, which is impossible in 2026-07-28.
"""

from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent


def ask_by_results(module) -> None:
    """Replace the tools of the server in `module` by tools that ask in the way of the present revision."""
    mcp = module.mcp
    tool = mcp.tool(description="Asks as the revision in use wants it")
    for name in ("sampling", "elicitation", "elicitation_sep1034_defaults", "elicitation_sep1330_enums"):
        mcp.remove_tool(f"test_{name}")

    def the_model(prompt: str):
        return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=prompt))], max_tokens=100)

    def the_user(message: str):
        return Elicit(message, module.UserResponse)

    def for_defaults():
        return Elicit("Please provide user information", module.SEP1034DefaultsSchema)

    def for_choices():
        return Elicit("Please select values using different enum schema types", module.EnumSchemasTestSchema)

    @tool
    async def test_sampling(prompt: str, answer: Annotated[CreateMessageResult, Resolve(the_model)]) -> str:
        return f"LLM response: {answer.content}"

    @tool
    async def test_elicitation(
        message: str, answer: Annotated[ElicitationResult[module.UserResponse], Resolve(the_user)]
    ) -> str:
        return f"User response: {answer}"

    @tool
    async def test_elicitation_sep1034_defaults(
        answer: Annotated[ElicitationResult[module.SEP1034DefaultsSchema], Resolve(for_defaults)],
    ) -> str:
        return f"Elicitation result: {answer}"

    @tool
    async def test_elicitation_sep1330_enums(
        answer: Annotated[ElicitationResult[module.EnumSchemasTestSchema], Resolve(for_choices)],
    ) -> str:
        return f"Elicitation completed: {answer}"


def announce_changes(mcp) -> None:
    """Replace tools that add and remove an entry before they notify: a hub reports only real changes."""
    mcp.remove_tool("test_trigger_tool_change")
    mcp.remove_tool("test_trigger_prompt_change")
    tools, prompts = mcp._tool_manager._tools, mcp._prompt_manager._prompts

    @mcp.tool(description="Changes a list")
    async def test_trigger_tool_change(ctx: Context) -> str:
        if tools.pop("test_dynamic_tool", None) is None:
            mcp.add_tool(lambda: "dynamic", name="test_dynamic_tool", description="dynamic")
        await ctx.notify_tools_changed()
        return "tool list changed"

    @mcp.tool(description="Changes a list")
    async def test_trigger_prompt_change(ctx: Context) -> str:
        if prompts.pop("test_dynamic_prompt", None) is None:
            mcp.prompt("test_dynamic_prompt", description="dynamic")(lambda: "dynamic")
        await ctx.notify_prompts_changed()
        return "prompt list changed"
