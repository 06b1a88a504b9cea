"""What the command line shows to people, as text. Pure; the data is what the control socket answered.

Names, errors and results come from servers, so control characters are shown, not obeyed (SEC-54).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from time import localtime, strftime
from typing import Any

from hub.wire.clean import printable

Row = Sequence[object]


def status(data: Mapping[str, Any]) -> str:
    """`hubd status`: upstreams, attached hosts, warnings."""
    upstreams, hosts = data.get("upstreams") or [], data.get("hosts") or []
    lines = [f"hubd {data.get('version', '?')}, up {duration(data.get('uptimeS') or 0)}", ""]
    lines += table(_HEADS, [_upstream(upstream) for upstream in upstreams]) if upstreams else ["no upstreams"]
    lines.append("")
    host_heads = ("HOST", "TRANSPORT", "VERSION", "ENDPOINT", "ATTACHED", "IDLE", "CALLS", "ASKED")
    lines += table(host_heads, [_host(host) for host in hosts]) if hosts else ["no hosts attached"]
    warnings = [f"warning: {printable(str(warning))}" for warning in data.get("warnings") or []]
    return "\n".join(lines + ([""] if warnings else []) + warnings)


_HEADS = (
    *("UPSTREAM", "STATE", "ERA", "VERSION", "TRANSPORT", "SESSIONS", "MODE"),
    *("TOOLS", "PROMPTS", "RESOURCES", "TEMPLATES", "NOTE"),
)


def _upstream(upstream: Mapping[str, Any]) -> Row:
    counts = upstream.get("counts") or {}
    notes = [_trouble(upstream)] if upstream.get("last_error") else []
    degraded = upstream.get("degraded") or ()
    notes += [degraded] if isinstance(degraded, str) else [str(reason) for reason in degraded]
    if restarts := upstream.get("restarts"):
        notes.append(f"restarted {restarts} times" if restarts != 1 else "restarted once")
    if parked := upstream.get("parked"):
        notes.append(f"{parked} {'calls wait' if parked != 1 else 'call waits'} for answers of hosts")
    if refused := upstream.get("unattributed"):
        noun, whose = ("question", "it is") if refused == 1 else ("questions", "they are")
        notes.append(f"{refused} {noun} refused: nobody can tell which host {whose} for")
    named = [upstream.get(member) for member in ("name", "state", "era", "version", "transport", "sessions", "mode")]
    counted = [counts.get(kind) for kind in ("tools", "prompts", "resources", "templates")]
    return (*named, *counted, "; ".join(notes))


def _trouble(upstream: Mapping[str, Any]) -> str:
    """Why an upstream is away, or was; in one line. All of it, its last words included, is in `--json`."""
    first = str(upstream["last_error"]).partition("\n")[0]
    match upstream.get("state"):
        case "connected":
            return f"before: {first}"
        case "failed":
            return f"{first}; tried again when a host asks for it"
    return first


def _host(host: Mapping[str, Any]) -> Row:
    label = host.get("label")
    name = host.get("host")
    shown = name if label in (None, "", name) else f"{name} ({label})"
    times = [duration(host.get(member) or 0) for member in ("attached_s", "idle_s")]
    counted = [host.get(member) for member in ("in_flight", "asked")]
    return (shown, host.get("transport"), host.get("version"), host.get("endpoint"), *times, *counted)


def record(entry: Mapping[str, Any]) -> str:
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.get("at") or 0))
    return f"{at}  {printable(str(entry.get('kind'))):6}  {printable(str(entry.get('text')))}"


def tools(entries: Iterable[Mapping[str, Any]]) -> str:
    """`hubd tools`: a name and the first line of its description per line."""
    rows = []
    for entry in entries:
        description = str(entry.get("description") or entry.get("title") or "").strip()
        rows.append((entry.get("name"), shorten(description.split("\n")[0], 100)))
    return "\n".join(table((), rows))


def result(value: Mapping[str, Any]) -> str:
    """What a tool answered: its text as it is, other content as one line each."""
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


def table(heads: Row, rows: Sequence[Row]) -> list[str]:
    """Columns as wide as they need to be, numbers to the right, empty cells as `-`."""
    cells = [[_cell(cell) for cell in row] for row in (*([heads] if heads else []), *rows)]
    if not cells:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row[at], int | None) for row in rows) for at in range(len(widths))]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def shorten(text: str, width: int) -> str:
    """At most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"
