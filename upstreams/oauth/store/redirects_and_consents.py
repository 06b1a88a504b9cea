"""Facts that are kept between sign-ins, none of them secret: in one file, `facts.json`.

Numbers of redirect URIs (servers that do not name themselves in their answers each have their own), which server alone
answers at a configured one, the port that browsers come back to, what people agreed to, and since when upstreams with
a grant have been gone from the configuration.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from hub.linux.file_locks import hold_lock
from upstreams.oauth.store.private_folder import NotKept, move_aside, read_file, write_file
from upstreams.oauth.store.renewal_lock import open_lock

VERSION: Final = 1
MAX_AGREED: Final = 1000
MAX_URIS: Final = 256
DAY_S: Final = 86_400.0
REMOVED_FOR_S: Final = 30 * DAY_S
"""A grant outlives its upstream's place in the configuration by so long."""


class Agreed(Struct, frozen=True):
    """The consent of a person in a terminal: that an upstream has its sign-ins at this issuer."""

    upstream: str
    principal: str
    issuer: str


class _File(Struct, kw_only=True):
    version: int = VERSION
    redirect_numbers: dict[str, int] = {}
    """Issuer -> N of `/oauth/callback/N`."""
    only_for: dict[str, str] = {}
    """Configured redirect URI -> the one issuer that is used with it and does not say who it is."""
    port: int | None = None
    agreed: tuple[Agreed, ...] = ()
    removed: dict[str, float] = {}
    """Upstream -> wall time at which it was first missing in the configuration."""
    started: float = 0.0
    """Wall time of the latest start, to a day."""


class SignInFactsFile:
    """The file, read and replaced under a lock. All methods block briefly, and raise NotKept if it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "facts.json"
        self._lock = folder / "facts.lock"

    def redirect_number(self, issuer: str) -> int:
        """The number of the redirect URI that this issuer alone has: 1, 2, ... by first use, kept."""
        with self._edit() as file:
            numbers = file.redirect_numbers
            return numbers.setdefault(issuer, max(numbers.values(), default=0) + 1)

    def only_for(self, uri: str, issuer: str) -> str:
        """The issuer that alone answers at a configured redirect URI: `issuer`, unless there is one already, kept."""
        with self._edit() as file:
            first = file.only_for.setdefault(uri, issuer)
            file.only_for = dict([*file.only_for.items()][-MAX_URIS:])
            return first

    def port(self) -> int | None:
        """The port that was picked once for browsers to come back to."""
        return self._read().port

    def keep_port(self, port: int | None) -> None:
        """Keep the port, or forget it."""
        with self._edit() as file:
            file.port = port

    def is_agreed(self, upstream: str, principal: str, issuer: str) -> bool:
        """True if the person has said yes to this issuer for this upstream."""
        return Agreed(upstream, principal, issuer) in self._read().agreed

    def agree(self, upstream: str, principal: str, issuer: str) -> None:
        """Keep that the person said yes."""
        yes = Agreed(upstream, principal, issuer)
        with self._edit() as file:
            file.agreed = (*(each for each in file.agreed if each != yes), yes)[-MAX_AGREED:]

    def long_removed(self, kept: Collection[str], configured: Collection[str], now: float) -> list[str]:
        """The upstreams among `kept` that have not been `configured` for 30 days. `now` is wall time; to be called
        at each start, since that is when it is noted. Empty if the start before was as long ago: the clock may be
        ahead."""
        with self._edit() as file:
            removed = {name: min(file.removed.get(name, now), now) for name in kept if name not in configured}
            is_credible = now - file.started <= REMOVED_FOR_S
            gone = sorted(name for name, since in removed.items() if is_credible and now - since > REMOVED_FOR_S)
            file.removed = {name: since for name, since in removed.items() if name not in gone}
            if abs(now - file.started) >= DAY_S:
                file.started = now
            return gone

    @contextmanager
    def _edit(self) -> Iterator[_File]:
        """The content under the lock, which is written if it has changed afterwards."""
        with hold_lock(open_lock(self._lock)):
            file = self._read()
            before = msgspec.json.encode(file)
            yield file
            if (after := msgspec.json.encode(file)) != before:
                write_file(self._path, msgspec.json.format(after, indent=1) + b"\n")

    def _read(self) -> _File:
        if (data := read_file(self._path)) is None:
            return _File()
        try:
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            move_aside(self._path)
            return _File()
        if file.version != VERSION:
            raise NotKept(f"{self._path} was written by another version of hubd; use that one, or delete the file.")
        return file
