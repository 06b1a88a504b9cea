"""The options of `hubd serve`, and the configuration that they and the files make; files are read again on change."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from config.errors import ConfigError
from config.loading.assemble import Loaded, load_all
from config.loading.check import check_hub
from config.loading.safe_reading import Problem
from config.profile_settings import profile_problem
from config.settings import HubConfig, UpstreamConfig
from hub.daemon.fixed_references import FixedReferences


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

    Upstreams whose references lead nowhere are left out (`Loaded.unresolved`).

    Raises:
        ConfigError: the file cannot be used.
    """
    loaded = load_all(options.config, environ, partly=True)
    config = loaded.config if loaded.sources else demo_config()
    changes = {"listen": options.listen, "auth": options.auth}
    config = structs.replace(config, **{name: value for name, value in changes.items() if value is not None})
    return fixed.fill(structs.replace(loaded, config=check(config)))


def check(config: HubConfig) -> HubConfig:
    """Check that the hub's own settings fit together; return `config`.

    Raises:
        ConfigError: they do not.
    """
    try:
        check_hub(config)
    except Problem as problem:
        raise ConfigError(f"{'.'.join(problem.keys)}: {problem}") from None
    return config


def refuse_profile(name: str, config: HubConfig) -> None:
    """Refuse a profile of the command line that is not there.

    Raises:
        ConfigError: it is not; the text names those that are.
    """
    if problem := profile_problem(name, config.profiles):
        raise ConfigError(f"--profile: {problem}")


def demo_config() -> HubConfig:
    """The configuration served when there is none: the embedded demo server, as a real child over stdio."""
    command = (sys.executable, "-I", "-m", "upstreams.demo")
    demo = UpstreamConfig(command=command[0], args=command[1:], cwd=os.path.expanduser("~"))
    return HubConfig(upstreams={"demo": demo})
