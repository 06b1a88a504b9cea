"""The corpus: lists of real servers, and what people ask for. See `tests/data/search/README.md`."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from hub.catalog.search.index import FoundTool, SearchIndex
from hub.wire.jsonrpc import raw

DATA = Path(__file__).parents[3] / "data" / "search"


@cache
def servers() -> dict[str, list[dict[str, Any]]]:
    """The tools of each server, by the server's name."""
    found = (json.loads(path.read_text()) for path in sorted((DATA / "servers").glob("*.json")))
    return {each["server"]: each["tools"] for each in found}


@cache
def index() -> SearchIndex:
    """All of them."""
    made = SearchIndex()
    for server, tools in servers().items():
        for tool in tools:
            made.add(found_tool(server, **tool))
    return made


def found_tool(server: str, name: str, **members: Any) -> FoundTool:
    """A tool of `server` as the index takes it."""
    fields = {member: raw(value) for member, value in {"name": name, **members}.items()}
    return FoundTool(f"{server}__{name}", name, server, fields)


def counts() -> dict[str, int]:
    """By server, how many tools it has."""
    return {server: len(tools) for server, tools in servers().items()}


def queries(name: str = "queries") -> list[tuple[str, list[str]]]:
    """What people ask for, and the tools any of which would do; `heldout`: what the ranking was not made by."""
    return [(each["query"], each["tools"]) for each in json.loads((DATA / f"{name}.json").read_text())]
