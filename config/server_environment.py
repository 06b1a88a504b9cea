"""The environment of a server as it may be shown: each variable, and what says it. For `hubd env`. Pure.

Values that look like secrets are masked; of what settings say all are, since nobody can tell which of them are secrets.
"""

from typing import Literal

from msgspec import Struct

from config.environment.passing import Patterns, passing
from config.loading.assemble import Loaded
from config.secret_detection import MASK, looks_secret, masked_url
from config.settings import UpstreamConfig


class ShownVariable(Struct, frozen=True, kw_only=True):
    """A variable that a server gets."""

    name: str
    value: str
    """The value, or what is shown in its place."""
    source: Literal["configuration", "hubd.env", "environment"]
    """The kind of place it comes from: `environment` is what the hub was started with."""
    file: str | None = None
    line: int | None = None


class WithheldVariable(Struct, frozen=True, kw_only=True):
    """A variable of the hub that a pattern names, and the server does not get."""

    name: str
    reason: Literal["secret", "pattern", "own"]
    """`secret`: it looks like one, and `pass` does not name it in full; `pattern`: one with `!` takes it out; `own`: it
    was set for the hub itself."""


class ShownEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of one server, or of a server that says nothing of it."""

    variables: tuple[ShownVariable, ...]
    withheld: tuple[WithheldVariable, ...]


def shown_environment(
    loaded: Loaded, name: str | None = None, config: UpstreamConfig | None = None
) -> ShownEnvironment:
    """The environment that the server `name` gets when it starts next. `config`: its settings, if they are not in
    `loaded`. Without a name: what a server gets of which only `[defaults]` say anything."""
    config = config or (None if name is None else loaded.config.upstreams.get(name))
    settings = loaded.config.defaults if config is None else config
    patterns: Patterns = settings.pass_
    found = passing(loaded.environ, patterns)
    env_file = str(loaded.files[0].with_name("hubd.env")) if loaded.files else None
    shown = {}
    for variable, value in found.passed.items():
        line = loaded.own_lines.get(variable)
        shown[variable] = ShownVariable(
            name=variable,
            value=_masked(variable, value),
            source="environment" if line is None else "hubd.env",
            file=None if line is None else env_file,
            line=line,
        )
    table = ("defaults",) if config is None else ("upstreams", name or "")
    for variable in settings.env:
        origin = loaded.origins.get((*table, "env", variable))
        file, line = (None, None) if origin is None else (str(origin.file), origin.line)
        shown[variable] = ShownVariable(name=variable, value=MASK, source="configuration", file=file, line=line)
    return ShownEnvironment(
        variables=tuple(shown[variable] for variable in sorted(shown)),
        withheld=tuple(
            WithheldVariable(name=variable, reason=reason)
            for variable, reason in sorted(found.withheld.items())
            if variable not in settings.env
        ),
    )


def _masked(name: str, value: str) -> str:
    if not looks_secret(name, value):
        return value
    return masked_url(value) if "://" in value else MASK
