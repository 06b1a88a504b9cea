"""`hubd search`: servers of registries by their names."""

from collections.abc import Sequence
from os import EX_OK, EX_UNAVAILABLE
from typing import Any

from config.registry.server_json import Listed, one_line
from config.registry.ways_to_run import kinds_of
from hub.cli.context import Context, Output, UsageError
from hub.cli.registry.choosing import report_failures
from hub.cli.registry.client import Registry, RegistryFailed, run_all
from hub.cli.registry.lookup import Known
from hub.cli.render.blocks import Table


@report_failures
def search(options: Context) -> int:
    """Show the servers whose names hold the words. Registries look for one text; it is the longest word."""
    output = options.output
    words = [word.lower() for text in options.words_of_search for word in text.split()]
    if not words or any(not word.isprintable() for word in words):
        raise UsageError("say what to look for: a part of a server's name")
    registries = Known(options.loaded).choose(options.registry)
    longest = max(words, key=len)
    answers = run_all(lambda client, registry: client.search(registry, longest), registries, output.progress)
    failed = [answer for answer in answers if isinstance(answer, RegistryFailed)]
    if len(failed) == len(registries):
        return output.fail(EX_UNAVAILABLE, f"{_together(failed)}{failed[0].advice}")
    for error in failed:
        output.warn(str(error))
    pairs = zip(registries, answers, strict=True)
    found = [(registry, page) for registry, page in pairs if not isinstance(page, RegistryFailed)]
    rows = [(registry, each) for registry, page in found for each in page.servers if _has(each, words)]
    more = any(page.next_cursor for _, page in found)
    output.set(servers=[_object_of_match(registry, each) for registry, each in rows], more=more)
    _show_found(rows, " ".join(words), several=len(registries) > 1, more=more, output=output)
    for registry, page in found:
        if page.unreadable:
            output.note(f"{page.unreadable} of what registry {registry.name} answered cannot be read, and is not shown")
    return EX_OK


def _together(failed: Sequence[RegistryFailed]) -> str:
    """The reason why no registry says anything; of several that fail for one reason this is said once."""
    by_reason: dict[str, list[str]] = {}
    for error in failed:
        by_reason.setdefault(error.why, []).append(error.registry)
    return "; ".join(
        f"cannot reach {'registry' if len(names) == 1 else 'registries'} {' and '.join(names)}: {why}"
        for why, names in by_reason.items()
    )


def _has(listed: Listed, words: Sequence[str]) -> bool:
    """True if the words are in its name, title or description; deleted ones have none."""
    server = listed.server
    text = f"{server.name} {server.title} {server.description}".lower()
    return listed.status != "deleted" and all(word in text for word in words)


def _show_found(
    rows: Sequence[tuple[Registry, Listed]], text: str, *, several: bool, more: bool, output: Output
) -> None:
    if not rows:
        output.say(f'nothing is called "{text}"; registries look at names, so try a part of one')
        return
    cells = [
        {
            "NAME": each.server.name,
            "VERSION": each.server.version,
            "RUNS AS": ", ".join(kinds_of(each.server)),
            **({"REGISTRY": registry.name} if several else {}),
            "DESCRIPTION": _description(each),
        }
        for registry, each in rows
    ]
    rows_of_cells = [list(row.values()) for row in cells]
    output.show(Table(list(cells[0]), rows_of_cells, shorten=("DESCRIPTION",), drop=("RUNS AS",)))
    count = "1 server" if len(rows) == 1 else f"{len(rows)} servers"
    rest = "; there are more, so add a word" if more else ""
    output.say(f'{count} for "{text}" (registries look at names){rest}. `hubd add NAME` adds one.')


def _description(listed: Listed) -> str:
    said = one_line(listed.server.description)
    if listed.status == "active":
        return said
    return f"{listed.status}: {one_line(listed.message) or said}"


def _object_of_match(registry: Registry, listed: Listed) -> dict[str, Any]:
    server = listed.server
    return {
        "name": server.name,
        "version": server.version,
        "registry": registry.name,
        "runs_as": kinds_of(server),
        "status": listed.status,
        "message": listed.message or None,
        "published": listed.published or None,
        "title": server.title or None,
        "description": server.description,
    }
