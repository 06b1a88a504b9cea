"""The content of the demo server: tools, resources, a template, prompts, and the words in them."""

from collections.abc import Mapping
from typing import Any, Final

Entry = Mapping[str, Any]

INSTRUCTIONS: Final = (
    "A demo that comes with hubd. It is served while no other MCP server is configured. "
    "Start with the resource demo://welcome or the tool echo."
)
WELCOME: Final = """\
# Welcome to hubd

hubd is one MCP server for all your AI programs, and the client of all your MCP servers. You are reading this through
it: this text comes from a small demo server that runs as a child of the hub, as your own servers will.

Things to try:

- `hubd tools` lists every tool of every server; `hubd call demo__echo text=hello` calls one.
- The tool `countdown` reports progress while it runs, and can be cancelled.
- The tool `touch` changes the resource `demo://counter` and makes another one come and go; programs that subscribed
  hear of it at once.
- `demo://greeting/Ada` greets whoever you name.

To use your own servers, write a `hubd.toml`; `hubd serve` tells where it looks for one:

    [upstreams.files]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/documents"]

The demo then makes room for them.
"""
_READ_ONLY: Final[Entry] = {"readOnlyHint": True, "openWorldHint": False}
_NUMBER: Final = {"type": "number"}
PROMPTS: Final[list[Entry]] = [
    {"name": "tour", "title": "Show me around", "description": "A tour of everything behind this hub."},
    {
        "name": "explain",
        "title": "Explain",
        "description": "Explain something to a newcomer.",
        "arguments": [{"name": "topic", "description": "What to explain", "required": True}],
    },
]
COMPLETIONS: Final[dict[tuple[Any, Any], list[str]]] = {
    ("explain", "topic"): ["MCP", "hubd", "prompts", "resources", "structured concurrency", "tools"],
    ("demo://greeting/{name}", "name"): ["Ada", "Alan", "Barbara", "Edsger", "Grace", "Guido"],
}
"""(prompt name or URI template, argument) -> what may be meant."""


def _tool(
    name: str, title: str, text: str, arguments: Mapping[str, Any] = {}, *, annotations: Entry = _READ_ONLY, **more: Any
) -> Entry:
    """A tool that needs all its arguments, but those with a default."""
    required = [argument for argument, schema in arguments.items() if "default" not in schema]
    schema = {"type": "object", "properties": arguments, "required": required}
    facts = {"name": name, "title": title, "description": text, "inputSchema": schema}
    return {**facts, **more, "annotations": annotations}


TOOLS: Final[list[Entry]] = [
    _tool(
        "echo",
        "Echo",
        "Says back what you say. Good for a first look whether everything is connected.",
        {"text": {"type": "string", "description": "What to say back"}},
    ),
    _tool(
        "add",
        "Add",
        "Adds two numbers; answers in words and as structured content.",
        {"a": _NUMBER, "b": _NUMBER},
        outputSchema={"type": "object", "properties": {"sum": _NUMBER}, "required": ["sum"]},
    ),
    _tool("now", "Now", "Tells the local date and time of the machine that hubd runs on."),
    _tool(
        "countdown",
        "Count down",
        "Counts down slowly and reports progress at every step. Cancel it if you get bored.",
        {
            "from": {"type": "integer", "minimum": 1, "maximum": 100, "default": 5, "description": "Where to start"},
            "pause_s": {"type": "number", "minimum": 0, "maximum": 10, "default": 1, "description": "Seconds per step"},
        },
    ),
    _tool(
        "touch",
        "Touch the counter",
        "Adds one to demo://counter, and makes the resource demo://surprise come or go. Subscribers are told.",
        annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    ),
    _tool("fail", "Fail", "Always fails, so that you can see how a failing tool looks."),
]


def _entry(uri: str, title: str, description: str, kind: str = "text/plain", *, key: str = "uri") -> Entry:
    name = title.split()[0].lower()
    return {key: uri, "name": name, "title": title, "description": description, "mimeType": kind}


RESOURCES: Final[list[Entry]] = [
    _entry("demo://welcome", "Welcome to hubd", "What hubd is and what to try first.", "text/markdown"),
    _entry("demo://clock", "Clock", "The local time. Subscribers hear of a change every five seconds."),
    _entry("demo://counter", "Counter", "How often the tool touch was called.", "application/json"),
]
SURPRISE: Final = _entry("demo://surprise", "Surprise", "There after an odd number of touches, gone after an even one.")
TEMPLATES: Final = [_entry("demo://greeting/{name}", "Greeting", "A greeting for anybody you name.", key="uriTemplate")]
