"""Recording the environment of a shell in `hubd.env`: what would be written, and writing it."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.environment.own_file import NotReadable, in_block, outside, with_block
from config.environment.recording import recording
from config.errors import EditError
from config.files import read_file, replace_file
from config.loading.all_files import OWN_VARIABLES
from config.loading.variables import MAX_FILE_BYTES
from config.settings import HubConfig

PRIVATE: Final = 0o600


class Capture(Struct, frozen=True, kw_only=True):
    """The change of a `hubd.env` that records a shell."""

    path: Path
    before: bytes | None
    """None: there is no file yet."""
    after: bytes
    recorded: dict[str, str] | None
    """The variables that were recorded until now; None: nothing."""
    values: dict[str, str]
    """The variables that are recorded then."""
    left_out: dict[str, str]
    """The reasons, by the name of a variable or directory."""

    @property
    def changes(self) -> bool:
        """True if the file is another one then."""
        return self.after != (self.before or b"")


def environment_file(config: Path) -> Path | None:
    """The `hubd.env` beside this main file; None: a host's own file has none."""
    return config.with_name(OWN_VARIABLES) if config.suffix == ".toml" else None


def capture(path: Path, environ: Mapping[str, str], config: HubConfig) -> Capture:
    """The change that records `environ` for the servers of `config` in the file `path`. Variables that the user's own
    lines there set are left to these. Blocks.

    Raises:
        EditError: the file cannot be read, or would be too large.
    """
    before = read_file(path, trusted=True)
    data = before or b""
    try:
        own, recorded = outside(data), in_block(data)
        found = recording(environ, _patterns(config), _commands(config))
        values = {name: value for name, value in found.values.items() if name not in own}
        after = with_block(data, values)
    except NotReadable as error:
        raise EditError(f"{path}: {error}; it was left as it is") from None
    if len(after) > MAX_FILE_BYTES:
        raise EditError(f"{path}: would be larger than {MAX_FILE_BYTES >> 10} KB; it was left as it is")
    left_out = found.left_out | {name: f"a line of yours in {path} sets it" for name in found.values if name in own}
    return Capture(path=path, before=before, after=after, recorded=recorded, values=values, left_out=left_out)


def write_capture(planned: Capture, now: datetime, backups: Path) -> Path | None:
    """Write the file, for its owner alone; the backup of the one before. Blocks.

    Raises:
        EditError: the file is another one by now, or cannot be written.
    """
    return replace_file(planned.path, planned.after, was=planned.before, now=now, backups=backups, mode=PRIVATE)


def _patterns(config: HubConfig) -> Iterable[tuple[str, ...]]:
    return [config.defaults.pass_, *(each.pass_ for each in config.upstreams.values() if each.command)]


def _commands(config: HubConfig) -> list[str]:
    commands = (each.command for each in config.upstreams.values() if not each.disabled)
    return [command for command in commands if command and "/" not in command]
