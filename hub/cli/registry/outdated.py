"""`hubd outdated`: servers of the configuration that came from a registry and have something newer there, or should not
be used any more."""

from collections.abc import Sequence
from functools import cache
from os import EX_OK, EX_UNAVAILABLE
from typing import Final

from msgspec import Struct, to_builtins

from config.errors import ConfigError
from config.registry.server_json import Listed, RegistrySource, is_older, one_line, source_of
from hub.cli.context import Context, Output, UsageError
from hub.cli.registry.choosing import report_failures
from hub.cli.registry.client import Client, RegistryFailed, run_all
from hub.cli.registry.lookup import Known
from hub.cli.render.blocks import Table

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


@report_failures
def list_outdated(options: Context) -> int:
    """Show them; a registry that does not answer is said, and the exit code then."""
    output = options.output
    known = Known(options.loaded)
    sources = {name: source_of(each.source) for name, each in known.upstreams.items()}
    asked = {name: source for name, source in sources.items() if source is not None}
    if not asked:
        output.set(servers=[])
        output.say("no server came from a registry; `hubd search WORD` finds some")
        return EX_OK
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
    failed = list(dict.fromkeys(state.problem for state in states if state.problem))
    for text in failed:
        output.fail(EX_UNAVAILABLE, text)
    return EX_UNAVAILABLE if failed else EX_OK


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
