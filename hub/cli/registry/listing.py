"""`hubd search`: servers of registries by their names; `hubd outdated`: those of the configuration of which there is
something newer, or that should not be used any more."""

from collections.abc import Sequence
from os import EX_OK, EX_UNAVAILABLE
from typing import Any, Final

from msgspec import Struct

from config.errors import ConfigError
from config.registry.server_json import Listed, RegistrySource, is_older, one_line, source_of
from config.registry.ways import kinds_of
from hub.cli.desk import Desk, Output, UsageError
from hub.cli.registry.choosing import report_failures
from hub.cli.registry.client import Client, Matches, Registry, RegistryFailed, ask_all, run
from hub.cli.registry.finding import Known
from hub.cli.render.screen import Screen, Table

Results = list[tuple[Registry, Matches]]
GONE: Final = "gone"


# --- search -----------------------------------------------------------------------------------------------------------


@report_failures
def search(options: Desk) -> int:
    """Show the servers whose names hold the words."""
    output = options.output
    words = [word.lower() for text in options.words_of_search for word in text.split()]
    if not words or any(not word.isprintable() for word in words):
        raise UsageError("say what to look for: a part of a server's name")
    registries = Known(options.config).choose(options.registry)
    found, failed = _ask_registries(registries, words, output.progress)
    if len(failed) == len(registries):
        return output.fail(EX_UNAVAILABLE, f"{_together(failed)}{failed[0].advice}")
    for error in failed:
        output.warn(str(error))
    rows = [(registry, each) for registry, matches in found for each in matches.servers if _has(each, words)]
    more = any(matches.more for _, matches in found)
    output.set(servers=[_object_of_match(registry, each) for registry, each in rows], more=more)
    _show_found(rows, words, several=len(registries) > 1, more=more, output=output)
    for registry, matches in found:
        if matches.unreadable:
            output.note(
                f"{matches.unreadable} of what registry {registry.name} answered cannot be read, and is not shown"
            )
    return EX_OK


def _ask_registries(
    registries: Sequence[Registry], words: Sequence[str], screen: Screen
) -> tuple[Results, list[RegistryFailed]]:
    """The finds of each registry, and the reasons why some do not say; all are asked at once. Registries look for one
    text; it is the longest word."""
    longest = max(words, key=len)

    async def ask(client: Client) -> list[Matches | RegistryFailed]:
        return await ask_all(lambda registry: client.search(registry, longest), registries)

    answers = run(ask, screen)
    found = [(each, said) for each, said in zip(registries, answers, strict=True) if isinstance(said, Matches)]
    return found, [said for said in answers if isinstance(said, RegistryFailed)]


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
    rows: Sequence[tuple[Registry, Listed]], words: Sequence[str], *, several: bool, more: bool, output: Output
) -> None:
    text = " ".join(words)
    if not rows:
        output.say(f'nothing is called "{text}"; registries look at names, so try a part of one')
        return
    heads = ("NAME", "VERSION", "RUNS AS", *(("REGISTRY",) if several else ()), "DESCRIPTION")
    cells = [
        (
            each.server.name,
            each.server.version,
            ", ".join(kinds_of(each.server)),
            *((registry.name,) if several else ()),
            _description(each),
        )
        for registry, each in rows
    ]
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


# --- outdated ---------------------------------------------------------------------------------------------------------


class UpdateState(Struct, frozen=True, kw_only=True):
    """The standing of a server with its registry."""

    name: str
    source: RegistrySource
    newest: str = ""
    status: str = "active"
    message: str = ""
    problem: str = ""
    """The reason why nothing is known."""

    @property
    def is_behind(self) -> bool:
        """True if there is something newer; a version ahead of it, which somebody named, stays."""
        has = self.source.version
        return self.newest not in ("", has) and not is_older(self.newest, has)


@report_failures
def list_outdated(options: Desk) -> int:
    """Show them; a registry that does not answer is said, and the exit code then."""
    output = options.output
    known = Known(options.config)
    sources = {name: source_of(each.source) for name, each in known.upstreams.items()}
    asked = {name: source for name, source in sources.items() if source is not None}
    if not asked:
        output.set(servers=[])
        output.say("no server came from a registry; `hubd search WORD` finds some")
        return EX_OK
    states = _states(asked, known, output)
    output.set(servers=[_state_object(state) for state in states])
    known_states = [state for state in states if not state.problem]
    if known_states:
        _show_states(
            [state for state in known_states if state.status != "active" or state.is_behind], len(known_states), output
        )
    failed = list(dict.fromkeys(state.problem for state in states if state.problem))
    for text in failed:
        output.fail(EX_UNAVAILABLE, text)
    return EX_UNAVAILABLE if failed else EX_OK


def _states(asked: dict[str, RegistrySource], known: Known, output: Output) -> list[UpdateState]:
    registries: dict[str, Registry | str] = {}
    for source in asked.values():
        if source.registry not in registries:
            try:
                registries[source.registry] = known.get(source.registry)
            except (UsageError, ConfigError) as error:
                registries[source.registry] = str(error)

    async def ask(client: Client) -> list[list[Listed] | RegistryFailed]:

        async def one(source: RegistrySource) -> list[Listed]:
            registry = registries[source.registry]
            if isinstance(registry, str):
                raise RegistryFailed(registry)
            return await client.versions(registry, source.name)

        return await ask_all(one, asked.values())

    return [
        UpdateState(name=name, source=source, problem=str(said))
        if isinstance(said, RegistryFailed)
        else _state(name, source, said)
        for (name, source), said in zip(asked.items(), run(ask, output.progress), strict=True)
    ]


def _state(name: str, source: RegistrySource, versions: Sequence[Listed]) -> UpdateState:
    there = [each for each in versions if each.status != "deleted"]
    newest = next((each for each in there if each.is_latest), there[0] if there else None)
    own = next((each for each in versions if each.server.version == source.version), None)
    return UpdateState(
        name=name,
        source=source,
        newest=newest.server.version if newest else "",
        status=own.status if own else GONE,
        message=own.message if own else "",
    )


def _show_states(states: Sequence[UpdateState], asked: int, output: Output) -> None:
    if not states:
        which = "the server that" if asked == 1 else f"any of {asked} servers that"
        output.say(f"there is nothing newer of {which} came from a registry")
        return
    rows = [(each.name, each.source.version, each.newest or None, _about(each)) for each in states]
    output.show(Table(("SERVER", "HAS", "NEWEST", "NOTE"), rows, shorten=("NOTE",)))
    output.say("`hubd update NAME` shows what would change, and asks.")


def _about(state: UpdateState) -> str:
    if state.status == "active":
        return ""
    if state.status == GONE:
        return "its version is not in the registry any more"
    message = one_line(state.message)
    return f"{state.status}{f': {message}' if message else ''}"


def _state_object(state: UpdateState) -> dict[str, Any]:
    return {
        "name": state.name,
        "source": str(state.source),
        "version": state.source.version,
        "newest": state.newest or None,
        "status": None if state.problem else state.status,
        "message": state.message or None,
        "problem": state.problem or None,
    }
