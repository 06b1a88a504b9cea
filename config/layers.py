"""All configuration files of one hub, read as one: which settings hold, and where each came from.

Layers, the first one that names an upstream wins: the project of a host (`.hubd.toml`, `.mcp.json`), the user's own
files (`hubd.toml`, `upstreams.d/`, `include`), what was imported from hosts (`imported/`).
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct

from config.load import find_config, load
from config.paths import config_file
from config.schema import HubConfig, Remark
from config.source import Keys


class Layer(Enum):
    """Who said it; in order of precedence."""

    PROJECT = "project"
    USER = "user"
    IMPORTED = "imported"


class Origin(Struct, frozen=True):
    """Where a value comes from."""

    file: Path
    line: int | None
    layer: Layer


class Loaded(Struct, frozen=True, kw_only=True):
    """A configuration that was checked as a whole, and what it was made of."""

    config: HubConfig
    files: tuple[Path, ...] = ()
    """What was read, and what would be if it were there: a change of any of these may change `config`."""
    directories: tuple[Path, ...] = ()
    """In which new files count, too."""
    origins: Mapping[Keys, Origin] = {}
    warnings: tuple[Remark, ...] = ()
    """What works, and probably not as meant; as text they name file, line and key."""
    sources: tuple[Path, ...] = ()
    """Those of `files` that were there. None: nothing is configured."""


def load_all(named: Path | None, environ: Mapping[str, str]) -> Loaded:
    """Read the file that was named, or the user's own `hubd.toml`, and everything that belongs to it.

    Raises:
        ConfigError: with file, line or key, and what to write instead.
    """
    path = find_config(named)
    sources = () if path is None else (path,)
    return Loaded(config=load(path, environ), files=(path or config_file(),), sources=sources)
