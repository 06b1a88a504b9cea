"""Resources as tools, for hosts that show their model none: one lists those of the host's view, one reads one of them,
which is a read like any other, through the same stages."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Raw

from hub.calls.host_exchange import HostExchange
from hub.catalog.catalog import Catalog
from hub.catalog.search.meta_tools import LIST_RESOURCES, Answer, one_line, server_counts
from hub.catalog.upstream_entries import VisibleEntry
from hub.link.call_interface import Interim
from hub.routing.own_tools import Operate, refuse
from hub.wire.jsonrpc import Failure, Reply, Request, Result, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import RESOURCES_READ, Kind
from hub.wire.modern_metadata import read_number
from hub.wire.total_item_limit import TooManyItems, data_of, open_result

MAX_SHOWN: Final = 100
"""Resources in one answer."""
MAX_ANSWER_BYTES: Final = 16_000
MAX_URI: Final = 2_000
MAX_WORDS: Final = 100
"""Characters of what is said of each."""
_PASSED: Final = ("_meta", "requestState", "inputResponses")
"""Params of a call that are those of the read."""


def list_resources(catalog: Catalog, given: Raw | None) -> Answer:
    """The answer to a call of the tool that lists: the resources of a view, then its templates, a line each."""
    members = peek_object(given)
    server, offset = peek_str(members.get("server")), read_number(members.get("offset"))
    counts = {part.server_id: len(part.shown[Kind.RESOURCE]) + len(part.shown[Kind.TEMPLATE]) for part in catalog.parts}
    if server is not None and not counts.get(server):
        known = server_counts({name: count for name, count in counts.items() if count}, MAX_ANSWER_BYTES // 4)
        return Answer(f"no such server has resources; those that have: {known or 'none'}", is_error=True)
    start = int(min(max(offset or 0, 0), sum(counts.values())))
    lines: list[str] = []
    left = MAX_ANSWER_BYTES
    for at, (mark, entry) in enumerate(islice(_entries(catalog, server), start, None), start):
        line = _line(mark, entry)
        left -= len(line.encode(errors="replace")) + 1
        if len(lines) == MAX_SHOWN or (left < 0 and lines):
            return Answer("\n".join([*lines, f"[more: {LIST_RESOURCES} offset={at}]"]))
        lines.append(line)
    return Answer("\n".join(lines) or "there are no resources" + (" beyond these" if start else ""))


def _entries(catalog: Catalog, server: str | None) -> Iterator[tuple[str, VisibleEntry]]:
    for kind, mark in ((Kind.RESOURCE, ""), (Kind.TEMPLATE, "template ")):
        for part in catalog.parts:
            if server is None or part.server_id == server:
                entries = catalog.names.entries_of(kind, part, ui=False)
                yield from ((mark, each) for each in entries if len(each.visible) <= MAX_URI)


def _line(mark: str, entry: VisibleEntry) -> str:
    words = (peek_str(entry.fields.get(name)) for name in ("title", "name", "description"))
    said = one_line(": ".join(dict.fromkeys(filter(None, words))), MAX_WORDS)
    return f"{mark}{entry.visible}  {said}".rstrip()


async def read_resource(request: Request, exchange: HostExchange, operate: Operate) -> Reply:
    """The answer to a call of the tool that reads, in the form of the host, but for a result of the hub's own. Raises
    as `operate`."""
    uri = peek_object(request.params.get("arguments")).get("uri")
    params = {} if uri is None else {"uri": uri}
    params |= {name: request.params[name] for name in _PASSED if name in request.params}
    reply = await operate(Request(request.id, RESOURCES_READ, params), exchange)
    if isinstance(reply, Failure):
        text = f"{one_line(reply.message, MAX_URI)}. {LIST_RESOURCES} lists what there is."
        return reply if "reason" in data_of(reply) else refuse(text)  # about its answers, which its host has to see
    if isinstance(reply, Interim):
        return reply
    try:
        members = open_result(reply.value)
    except TooManyItems as error:
        return refuse(str(error))
    return Result(raw({"content": [_block(item) for item in peek_array(members.get("contents"), counted=True)]}))


def _block(item: Raw) -> object:
    """One content of a resource as a block of a tool's result."""
    members = peek_object(item, counted=True)
    kind = peek_str(members.get("mimeType")) or ""
    if (text := members.get("text")) is not None:
        return {"type": "text", "text": text}
    if (blob := members.get("blob")) is not None and kind.startswith("image/"):
        return {"type": "image", "data": blob, "mimeType": kind}
    return {"type": "resource", "resource": item}
