"""`hubd outdated`: servers of registries of which there is something newer, or that should not be used any more."""

from collections.abc import Sequence
from os import EX_OK, EX_UNAVAILABLE
from typing import Any

from msgspec import Struct

from config.errors import ConfigError
from config.registry.names import RegistrySource, is_older, source_of
from config.registry.server_json import Listed, one_line
from hub.cli.registry.choosing import report_failures
from hub.cli.registry.client import Client, Registry, RegistryFailed, ask_all, run
from hub.cli.registry.known import Known
from hub.cli.render.screen import Table
from hub.cli.subcommand import Desk, Output, UsageError

GONE = "gone"


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
    def is_noteworthy(self) -> bool:
        return bool(self.problem) or self.status != "active" or self.is_behind

    @property
    def is_behind(self) -> bool:
        """True if there is something newer; a version ahead of it, which somebody named, stays."""
        has = self.source.version
        return self.newest not in ("", has) and not is_older(self.newest, has)


@report_failures()
def outdated(options: Desk) -> int:
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
    output.set(servers=[_as_object(state) for state in states])
    known_states = [state for state in states if not state.problem]
    if known_states:
        _show([state for state in known_states if state.is_noteworthy], len(known_states), output)
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


def _show(states: Sequence[UpdateState], asked: int, output: Output) -> None:
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


def _as_object(state: UpdateState) -> dict[str, Any]:
    return {
        "name": state.name,
        "source": str(state.source),
        "version": state.source.version,
        "newest": state.newest or None,
        "status": None if state.problem else state.status,
        "message": state.message or None,
        "problem": state.problem or None,
    }
