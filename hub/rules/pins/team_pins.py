"""Pins of a team: a file of approved hashes under review (`pins_file`), which a fleet of hubs has in common."""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from hub.rules.fingerprints import Fingerprint
from hub.rules.pins.store import FORMAT, MAX_FILE_BYTES

log = logging.getLogger("hubd.pins")


class TeamPins(Struct, frozen=True):
    """The content of a file of approved hashes, made by `hubd pins export`: `pins_file`."""

    hubd_pins: int = 0
    """The number of its format."""
    servers: dict[str, dict[str, Fingerprint]] = {}
    """By server, and by the keys of its definitions."""


def read_team_pins(path: Path) -> TeamPins | str:
    """The content of such a file, or the reason why it cannot be used. Blocks."""
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(MAX_FILE_BYTES), type=TeamPins)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"{path} is no file of `hubd pins export`"
    if found.hubd_pins != FORMAT:
        return f"{path} was written by another version of hubd, or is no file of `hubd pins export`"
    return found


def encode_team_pins(servers: Mapping[str, Mapping[str, Fingerprint]]) -> bytes:
    """The content of such a file, one definition a line, in an order that a review can follow."""
    plain = {name: dict(sorted(items.items())) for name, items in sorted(servers.items())}
    return msgspec.json.format(msgspec.json.encode(TeamPins(FORMAT, plain)), indent=1) + b"\n"


class TeamFile:
    """What a hub knows of the file at `path`; None: there is none."""

    def __init__(self, path: str | None) -> None:
        self.content = TeamPins()
        """As it was read last; what cannot be used changes nothing."""
        self.problem = ""
        """The reason why it cannot be used."""
        self._path = path

    def use(self, path: str | None) -> None:
        """Go by the file at `path` from now on."""
        self._path = path
        if path is None:
            self.content, self.problem = TeamPins(), ""

    @property
    def lost(self) -> str:
        """The reason why nobody knows what the team has approved; "": that is not so."""
        is_known = self._path is None or self.content.hubd_pins
        return "" if is_known else self.problem or "pins_file was not read yet"

    async def read(self, path: str | None) -> bool:
        """Read the file at `path`, which may be about to be used; True if it says something else than before."""
        if path is None:
            return False
        found, before = await trio.to_thread.run_sync(read_team_pins, Path(path)), self.content
        if isinstance(found, TeamPins):
            self.content, self.problem = found, ""
        elif found != self.problem:
            log.warning("pins_file: %s; what it said before still holds", found)
            self.problem = found
        return self.content != before
