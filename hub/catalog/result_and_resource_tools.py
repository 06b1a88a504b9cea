"""Tools of the hub's own that some views list beside those of servers: for the rest of results that are cut, and for
resources, where a profile wants these as tools. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from config.profile_settings import Profile
from hub.catalog.search.meta_tools import LIST_RESOURCES, READ_RESOURCE, READ_RESULT
from hub.wire.jsonrpc import raw
from hub.wire.upstream_snapshot import ListEntry


def optional_tools(profile: Profile | None, *, cuts: bool) -> Iterator[ListEntry]:
    """The tools for hosts of a profile, or of none; `cuts`: results of a server that they see may be cut."""
    wanted = None if profile is None else profile.large_results_bytes
    if cuts if wanted is None else wanted:
        text = "Read more of a result that was too long to be shown whole, or find lines in it."
        properties = {
            "id": _text("As the result says"),
            "offset": {"type": "integer", "minimum": 0, "description": "Byte to begin at"},
            "length": {"type": "integer", "minimum": 1, "description": "Bytes, at most"},
            "find": _text("In place of these: a text; lines that have it are shown, with their offsets"),
        }
        yield _entry(READ_RESULT, "Read more of a result", text, properties, ("id",), is_open=False)
    if profile is not None and profile.resource_tools:
        properties = {
            "server": _text("Only resources of this server"),
            "offset": {"type": "integer", "minimum": 0, "description": "Number of resources to leave out"},
        }
        text = "List resources of all servers: files, pages and other documents, by their URIs."
        yield _entry(LIST_RESOURCES, "List resources", text, properties, (), is_open=False)
        properties = {"uri": _text(f"As {LIST_RESOURCES} shows it, or made of a template")}
        yield _entry(
            READ_RESOURCE, "Read a resource", "Read a resource by its URI.", properties, ("uri",), is_open=True
        )


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _entry(
    name: str, title: str, text: str, properties: dict[str, Any], required: Iterable[str], *, is_open: bool
) -> ListEntry:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    annotations = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": is_open}
    fields = {"name": name, "title": title, "description": text, "inputSchema": schema, "annotations": annotations}
    return ListEntry(name, {member: raw(value) for member, value in fields.items()})
