"""The environment of a server as people see it (`hubd env`): each variable, and what says it. Secrets are masked."""

from operator import attrgetter
from typing import Literal

from msgspec import Struct

from config.environment.pass_variables_by_patterns import Reason, passing
from config.loading.assemble import Loaded
from config.secrets.detection import looks_secret
from config.secrets.masks import MASK, mask_url
from config.settings import UpstreamConfig


class ShownVariable(Struct, frozen=True):
    """A variable that a server gets."""

    name: str
    value: str
    """The value, or what is shown in its place."""
    source: Literal["configuration", "hubd.env", "environment"]
    """The kind of place it comes from: `environment` is what the hub was started with."""
    file: str | None = None
    line: int | None = None


class WithheldVariable(Struct, frozen=True):
    """A variable of the hub that a pattern names, and the server does not get."""

    name: str
    reason: Reason
    """As of `Passing.withheld`."""


class ShownEnvironment(Struct, frozen=True):
    """The environment of one server, or of a server that says nothing of it."""

    variables: tuple[ShownVariable, ...]
    withheld: tuple[WithheldVariable, ...]


def show_environment(loaded: Loaded, name: str | None = None, config: UpstreamConfig | None = None) -> ShownEnvironment:
    """The environment that the server `name` gets when it starts next. `config`: its settings, if they are not in
    `loaded`. Without a name: what a server gets of which only `[defaults]` say anything."""
    config = config or (None if name is None else loaded.config.upstreams.get(name))
    settings = loaded.config.defaults if config is None else config
    found = passing(loaded.environ, settings.pass_)
    env_file = str(loaded.files[0].with_name("hubd.env")) if loaded.files else None
    shown = {}
    for variable, value in found.passed.items():
        line = loaded.own_lines.get(variable)
        shown[variable] = ShownVariable(variable, _mask(variable, value), "environment")
        if line is not None:
            shown[variable] = ShownVariable(variable, _mask(variable, value), "hubd.env", env_file, line)
    table = ("defaults",) if config is None else ("upstreams", name or "")
    for variable in settings.env:
        origin = loaded.origins.get((*table, "env", variable))
        file, line = (None, None) if origin is None else (str(origin.file), origin.line)
        shown[variable] = ShownVariable(variable, MASK, "configuration", file, line)
    withheld = [WithheldVariable(name, why) for name, why in found.withheld.items() if name not in settings.env]
    in_order = attrgetter("name")
    return ShownEnvironment(tuple(sorted(shown.values(), key=in_order)), tuple(sorted(withheld, key=in_order)))


def _mask(name: str, value: str) -> str:
    if not looks_secret(name, value):
        return value
    return mask_url(value) if "://" in value else MASK
