"""The configuration that a hub serves, by the command line and the files, which are read again on change.

References to secrets among arguments that profiles fix are read whenever the configuration is.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from config.diagnostics import ConfigError, Diagnostic
from config.hub_paths import tokens_path
from config.loading.assemble import Loaded, for_several, load_all
from config.loading.checks.hub import problems_of_hub
from config.loading.checks.profiles import warnings_of_unread
from config.secret_references import Reference, Values
from config.secrets.fill_secret_values import references_in_profiles, with_values
from config.secrets.keyring import PATIENCE_S
from config.secrets.private_state_files import StateUnreadable
from config.settings import HubConfig, UpstreamConfig
from hub.downstream.access.token_files import TOKENS
from hub.link.call_interface import OWNER
from upstreams.read_secret_references import read_each

START_PATIENCE_S: Final = 5.0
MORE: Final = "Then run `hubd reload`"

ReadEach = Callable[[Iterable[Reference], Mapping[str, str], float], tuple[Values, Values]]
"""`read_each`, or a test's own."""


class FixedReferences:
    """The values that were read last, for the next reading. Used by one thread at a time."""

    def __init__(self, read: ReadEach = read_each) -> None:
        self._read = read
        self._kept: dict[Reference, str] = {}
        self._patience_s = START_PATIENCE_S

    def fill(self, loaded: Loaded) -> Loaded:
        """The loaded configuration with the values of these references in their places. An argument without a value
        has its tool left out, and there is a warning."""
        patience_s, self._patience_s = self._patience_s, PATIENCE_S
        profiles = loaded.config.profiles
        references = references_in_profiles(profiles)
        kept = {each: self._kept[each] for each in references if each in self._kept}
        wanted = [each for each in references if each not in kept]
        found, lacking = self._read(wanted, loaded.environ, patience_s) if wanted else ({}, {})
        values = {**kept, **found}
        self._kept = {each: value for each, value in values.items() if each.kind == "secret"}
        if not references:
            return loaded
        filled = with_values(profiles, values, {each: f"{why}. {MORE}" for each, why in lacking.items()})
        told = {warning.keys for warning in loaded.warnings}
        lines = {keys: origin.line for keys, origin in loaded.origins.items()}
        warnings = [
            Diagnostic(loaded.files[0], lines.get(problem.keys), problem.keys, str(problem))
            for problem in warnings_of_unread(filled)
            if problem.keys not in told
        ]
        config = structs.replace(loaded.config, profiles=filled)
        return structs.replace(loaded, config=config, warnings=(*loaded.warnings, *warnings))


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Options of the command line; None leaves a setting to the configuration."""

    config: Path | None = None
    listen: str | None = None
    auth: str | None = None
    stdio: bool = False
    profile: str | None = None
    """The profile that the host on standard input and output is shown; None: its user names none."""
    detached: bool = False
    """`hubd connect` started it: nobody reads its output, and its standard input takes its exit code."""


def configuration(options: ServeOptions, environ: Mapping[str, str], fixed: FixedReferences) -> Loaded:
    """The configuration to serve: from files, else the demo; the command line wins over both. `environ` is what the hub
    was started with; `fixed` reads what the arguments that profiles fix refer to. Blocks.

    Upstreams whose references lead nowhere are left out (`Loaded.unresolved`). Raises ConfigError: the file cannot be
    used."""
    loaded = load_all(options.config, environ, partly=True)
    config = loaded.config if loaded.sources else demo_config()
    changes = {"listen": options.listen, "auth": options.auth}
    config = structs.replace(config, **{name: value for name, value in changes.items() if value is not None})
    tokens = tokens_path()
    config = for_several(check(config)) if config.auth == "token" and _let_others_in(tokens) else check(config)
    return fixed.fill(structs.replace(loaded, config=config, files=(*loaded.files, tokens)))


def _let_others_in(tokens: Path) -> bool:
    """True if `hubd token new` made a token for another account than the owner's. Blocks."""
    try:
        return any(token.principal not in ("", OWNER) for token in TOKENS.read(tokens).values())
    except StateUnreadable:  # none of them counts
        return False


def check(config: HubConfig) -> HubConfig:
    """Check that the hub's own settings fit together; return `config`. Raises: ConfigError, if they do not."""
    for problem in problems_of_hub(config):
        raise ConfigError(f"{'.'.join(problem.keys)}: {problem}")
    return config


def demo_config() -> HubConfig:
    """The configuration served when there is none: the embedded demo server, as a real child over stdio."""
    command = (sys.executable, "-I", "-m", "upstreams.demo")
    demo = UpstreamConfig(command=command[0], args=command[1:], cwd=os.path.expanduser("~"))
    return HubConfig(upstreams={"demo": demo})
