"""The screens about a server before it is added: its command, its input, and the words of its publisher."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from config.registry.entry import words_without_answers
from config.registry.server_json import one_line
from config.registry.ways import Way
from hub.cli.registry.finding import Found
from hub.wire.printable import printable


def head(found: Found) -> str:
    """Name, version, day, registry."""
    listed = found.listed
    day = f", published {printable(listed.published)}" if listed.published else ""
    return f"{listed.server.name} {listed.server.version}{day}, in registry {found.registry.name}"


def status_of(found: Found) -> str:
    """The words of the registry against it; "": nothing."""
    listed = found.listed
    if listed.status == "active":
        return ""
    why = f": {printable(one_line(listed.message, 500))}" if listed.message else ""
    return f"it is {printable(listed.status[:32])}{why}"


def before_answers(found: Found, way: Way) -> Iterator[str]:
    """The server as the publisher describes it, with the keys of what will be asked in capitals."""
    yield head(found)
    if found.listed.server.description:
        yield f"  {printable(one_line(found.listed.server.description))}"
    if way.kind == "remote":
        address = next(slot for slot in way.slots if slot.place == "address")
        yield f"  opens       {printable(address.template or '')}"
        headers = [slot.name for slot in way.slots if slot.place == "header"]
        if headers:
            yield f"  headers     {printable(', '.join(headers))}"
        yield "What you ask of it, and what you answer, goes to that server."
        return
    yield f"  runs        {printable(' '.join(words_without_answers(way)))}"
    for slot in way.slots:
        if slot.place == "variable":
            default = slot.template if slot.template is not None else slot.asked[0].input.default or ""
            yield f"  environment {printable(slot.name)}{printable(f'={default}') if default else ''}"
    yield "This program gets your rights."


def as_written(settings: Mapping[str, Any]) -> Iterator[str]:
    """The settings as they will be written; secrets are references there."""
    if "url" in settings:
        yield f"  opens       {printable(settings['url'])}"
        for name, value in settings.get("headers", {}).items():
            yield f"  header      {printable(f'{name}: {value}')}"
    else:
        yield f"  runs        {printable(shlex.join([settings['command'], *settings.get('args', ())]))}"
    for name, value in settings.get("env", {}).items():
        yield f"  environment {printable(f'{name}={value}')}"
