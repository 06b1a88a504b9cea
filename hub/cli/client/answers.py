"""Answers of servers as text: the result of a tool, a resource, a prompt, a completion, and lists of them. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hub.wire.printable import printable

Object = Mapping[str, Any]


def result(value: Object) -> str:
    """The result of a tool: text as it is, other content as one line each."""
    parts = [_content(part) for part in value.get("content") or [] if isinstance(part, dict)]
    if not parts and "structuredContent" in value:
        parts = [json.dumps(value["structuredContent"], indent=2, ensure_ascii=False)]
    return "\n".join(parts)


def prompt(value: Object) -> str:
    """The messages of a prompt, each below the role that says it."""
    lines = []
    for message in value.get("messages") or []:
        if isinstance(message, dict):
            content = message.get("content")
            parts = content if isinstance(content, list) else [content]
            shown = "\n".join(_content(part) for part in parts if isinstance(part, dict))
            lines.append(f"[{printable(str(message.get('role')))}]\n{shown}")
    return "\n\n".join(lines)


def completion(value: Object) -> str:
    """The values, one a line, and how many more there are."""
    found = value.get("completion")
    found = found if isinstance(found, dict) else {}
    values = [printable(str(each)) for each in found.get("values") or []]
    total = found.get("total")
    if isinstance(total, int) and total > len(values):
        values.append(f"... {total} in all")
    elif found.get("hasMore") is True:
        values.append("... and more")
    return "\n".join(values)


def titles(items: Iterable[Object], name: str) -> list[tuple[str, str]]:
    """Rows of a list: the member `name` of each, and the first line of what it is."""
    return [(str(each.get(name)), _brief(each)) for each in items]


def prompts(items: Iterable[Object]) -> list[tuple[str, str]]:
    """Rows of prompts: the name with its arguments, and the first line of what it is."""
    return [(" ".join([str(each.get("name")), *_argument_words(each)]), _brief(each)) for each in items]


def _argument_words(item: Object) -> list[str]:
    named = [each for each in item.get("arguments") or [] if isinstance(each, dict)]
    return [f"{each.get('name')}{'=' if each.get('required') else '?='}" for each in named]


def describe(item: Object) -> str:
    """The description of a tool, resource or prompt, else its title; "": it has neither."""
    return str(item.get("description") or item.get("title") or "").strip()


def _brief(item: Object) -> str:
    return describe(item).partition("\n")[0]


def _content(part: Object) -> str:
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
