"""`hubd search`: servers of registries by their names. `hubd outdated`: servers of the configuration that came from a
registry and have something newer there, or should not be used any more."""

from collections.abc import Sequence
from functools import cache
from os import EX_UNAVAILABLE
from typing import Any, Final

from msgspec import Struct, to_builtins

from config.diagnostics import ConfigError
from config.registry.server_json import Listed, RegistrySource, is_older, one_line, source_of
from config.registry.ways_to_run import kinds_of
from hub.cli.context import Context, Output, UsageError
from hub.cli.registry.client import Client, Registry, RegistryFailed, run_all
from hub.cli.registry.find_server import Known
from hub.cli.render.blocks import Table
from hub.cli.render.words import group


def search(options: Context, output: Output) -> None:
    """Show the servers whose names hold the words. Registries look for one text; it is the longest word."""
    words = [word.lower() for text in options.words_of_search for word in text.split()]
    if not words or any(not word.isprintable() for word in words):
        raise UsageError("say what to look for: a part of a server's name")
    registries = Known(options.loaded).choose(options.registry)
    longest = max(words, key=len)
    answers = run_all(lambda client, registry: client.search(registry, longest), registries, output.progress)
    failed = [answer for answer in answers if isinstance(answer, RegistryFailed)]
    if len(failed) == len(registries):
        raise RegistryFailed(f"{_together(failed)}{failed[0].advice}")
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


def _together(failed: Sequence[RegistryFailed]) -> str:
    """The reason why no registry says anything; of several that fail for one reason this is said once."""
    by_reason = group((error.why, error.registry) for error in failed)
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
    whose = ["REGISTRY"] if several else []
    cells = []
    for registry, each in rows:
        kinds, registries = ", ".join(kinds_of(each.server)), [registry.name for _ in whose]
        cells.append([each.server.name, each.server.version, kinds, *registries, _description(each)])
    heads = ["NAME", "VERSION", "RUNS AS", *whose, "DESCRIPTION"]
    output.show(Table(heads, cells, shorten=("DESCRIPTION",), drop=("RUNS AS",)))
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


GONE: Final = "gone"


class UpdateState(Struct, frozen=True, kw_only=True):
    """The standing of a server with its registry, with the members that `--json` shows."""

    name: str
    source: str
    version: str
    newest: str | None = None
    status: str | None = None
    message: str | None = None
    problem: str | None = None
    """The reason why nothing is known."""

    @property
    def is_current(self) -> bool:
        """True if nothing speaks against its version; one ahead of the newest, which somebody named, stays."""
        newest = self.newest or self.version
        return self.status == "active" and (newest == self.version or is_older(newest, self.version))


def list_outdated(options: Context, output: Output) -> None:
    """Show them; a registry that does not answer is a failure."""
    known = Known(options.loaded)
    sources = {name: source_of(each.source) for name, each in known.upstreams.items()}
    asked = {name: source for name, source in sources.items() if source is not None}
    if not asked:
        output.set(servers=[])
        return output.say("no server came from a registry; `hubd search WORD` finds some")
    get = cache(known.get)

    async def ask(client: Client, source: RegistrySource) -> list[Listed]:
        try:
            registry = get(source.registry)
        except (UsageError, ConfigError) as error:
            raise RegistryFailed(str(error)) from None
        return await client.versions(registry, source.name)

    answers = run_all(ask, asked.values(), output.progress)
    states = [_state(*server, answer) for server, answer in zip(asked.items(), answers, strict=True)]
    output.set(servers=to_builtins(states))
    if answered := [state for state in states if not state.problem]:
        _show(answered, output)
    for text in dict.fromkeys(state.problem for state in states if state.problem):
        output.fail(text, EX_UNAVAILABLE)


def _state(name: str, source: RegistrySource, versions: list[Listed] | RegistryFailed) -> UpdateState:
    if isinstance(versions, RegistryFailed):
        return UpdateState(name=name, source=str(source), version=source.version, problem=str(versions))
    there = [each for each in versions if each.status != "deleted"]
    newest = next((each for each in there if each.is_latest), there[0] if there else None)
    own = next((each for each in versions if each.server.version == source.version), None)
    return UpdateState(
        name=name,
        source=str(source),
        version=source.version,
        newest=newest.server.version if newest else None,
        status=own.status if own else GONE,
        message=own.message or None if own else None,
    )


def _show(states: Sequence[UpdateState], output: Output) -> None:
    rows = [(each.name, each.version, each.newest, _about(each)) for each in states if not each.is_current]
    if not rows:
        which = "the server that" if len(states) == 1 else f"any of {len(states)} servers that"
        output.say(f"there is nothing newer of {which} came from a registry")
        return
    output.show(Table(("SERVER", "HAS", "NEWEST", "NOTE"), rows, shorten=("NOTE",)))
    output.say("`hubd update NAME` shows what would change, and asks.")


def _about(state: UpdateState) -> str:
    if state.status == "active":
        return ""
    if state.status == GONE:
        return "its version is not in the registry any more"
    message = one_line(state.message or "")
    return f"{state.status}{f': {message}' if message else ''}"
