"""What a hub is told at its start, by the command line and by files; and read again whenever they change."""

import os
import sys
from pathlib import Path

from msgspec import Struct, structs

from config.errors import ConfigError
from config.loading.check import check_hub
from config.loading.layers import Loaded, load_all
from config.loading.source import Problem
from config.schema import HubConfig, UpstreamConfig


class ServeOptions(Struct, frozen=True, kw_only=True):
    """What the command line says; None leaves it to the configuration."""

    config: Path | None = None
    listen: str | None = None
    auth: str | None = None
    stdio: bool = False
    detached: bool = False
    """`hubd connect` started it: nobody reads its output, and its standard input takes its exit code."""


def configuration(options: ServeOptions) -> Loaded:
    """The configuration to serve: that of the files, else the demo's; the command line wins over both. Blocks.

    Upstreams with references to what is not there are left out (`Loaded.lacking`).

    Raises:
        ConfigError: the file cannot be used.
    """
    loaded = load_all(options.config, os.environ, partly=True)
    config = loaded.config if loaded.sources else demo_config()
    changes = {"listen": options.listen, "auth": options.auth}
    config = structs.replace(config, **{name: value for name, value in changes.items() if value is not None})
    return structs.replace(loaded, config=checked(config))


def checked(config: HubConfig) -> HubConfig:
    """`config`, if the hub's own settings go together.

    Raises:
        ConfigError: they do not.
    """
    try:
        check_hub(config)
    except Problem as problem:
        raise ConfigError(f"{'.'.join(problem.keys)}: {problem}") from None
    return config


def demo_config() -> HubConfig:
    """What is served without any configuration: the embedded demo server, as a real child over stdio."""
    command = (sys.executable, "-I", "-m", "upstreams.demo")
    demo = UpstreamConfig(command=command[0], args=command[1:], cwd=os.path.expanduser("~"))
    return HubConfig(upstreams={"demo": demo})
