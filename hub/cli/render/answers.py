"""`hubd logs`, `hubd tools` and `hubd call` as text, and as blocks of a screen. Pure."""

import json
from collections.abc import Iterable, Mapping
from time import localtime, strftime
from typing import TYPE_CHECKING, Any, Final

from hub.cli.render.screen import Block, Table, styled
from hub.wire.printable import printable
from upstreams.status_facts import JournalRecord

if TYPE_CHECKING:
    from rich.text import Text


def record(entry: JournalRecord, names: int = 0) -> "Text":
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine; of several logs with the
    name before that, in `names` cells."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.at))
    line = styled(f"{at}  ", "dim")
    if names:
        line += styled(f"{entry.name:{names}}  ", "name")
    style = _KINDS.get(entry.kind)
    kind = f"{printable(entry.kind):{7 if names else 6}}"
    return line + (styled(kind, style) if style else kind) + f"  {printable(entry.text)}"


_KINDS: Final[Mapping[str, str]] = {"exit": "warning", "warning": "warning", "error": "bad", "critical": "bad"}
"""Styles of kinds of records."""


def tools(entries: Iterable[Mapping[str, Any]]) -> list[Block]:
    """`hubd tools`: a name and the first line of its description per line."""
    rows = []
    for entry in entries:
        description = str(entry.get("description") or entry.get("title") or "").strip()
        rows.append((styled(str(entry.get("name")), "name"), description.partition("\n")[0]))
    return [Table((), rows, shorten=(1, 0))] if rows else []


def result(value: Mapping[str, Any]) -> str:
    """The result of a tool: text as it is, other content as one line each."""
    parts = [_content(part) for part in value.get("content") or [] if isinstance(part, dict)]
    if not parts and "structuredContent" in value:
        parts = [json.dumps(value["structuredContent"], indent=2, ensure_ascii=False)]
    return "\n".join(parts)


def _content(part: Mapping[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return printable(str(part.get("text", "")), keep="\n\t")
        case "resource_link":
            return printable(f"[{part.get('name', 'resource')}: {part.get('uri')}]")
        case "resource" if isinstance(resource := part.get("resource"), dict):
            if "text" in resource:
                return printable(str(resource["text"]), keep="\n\t")
            return printable(f"[{resource.get('mimeType', 'binary')}: {resource.get('uri')}]")
        case kind:
            size = len(str(part.get("data", ""))) * 3 // 4
            return printable(f"[{kind}: {part.get('mimeType', 'unknown type')}, {size} bytes; --raw shows it]")
