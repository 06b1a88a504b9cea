"""Small things that are kept between sign-ins, none of them secret: in one file, `facts.json`.

Numbers of redirect URIs (servers that do not name themselves in their answers each have their own), which server alone
answers at a configured one, the port that browsers come back to, what people agreed to, and since when upstreams with
a grant have been gone from the configuration.
"""

import fcntl
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from upstreams.oauth.store.folder import NotKept, move_aside, open_lock, read_file, write_file

VERSION: Final = 1
MAX_AGREED: Final = 1000
MAX_URIS: Final = 256
DAY_S: Final = 86_400.0
REMOVED_FOR_S: Final = 30 * DAY_S
"""A grant outlives its upstream's place in the configuration by so long."""
R = TypeVar("R")


class Agreed(Struct, frozen=True):
    """The consent of a person in a terminal: that an upstream has its sign-ins at this issuer."""

    upstream: str
    principal: str
    issuer: str


class _File(Struct, frozen=True, kw_only=True):
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


class SignInNotes:
    """The file, read and replaced under a lock. All methods block briefly, and raise NotKept if it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "facts.json"
        self._lock = folder / "facts.lock"

    def redirect_number(self, issuer: str) -> int:
        """The number of the redirect URI that this issuer alone has: 1, 2, ... by first use, kept."""

        def assign(file: _File) -> tuple[int, _File]:
            number = file.redirect_numbers.get(issuer) or max(file.redirect_numbers.values(), default=0) + 1
            return number, replace(file, redirect_numbers={**file.redirect_numbers, issuer: number})

        return self._change(assign)

    def only_for(self, uri: str, issuer: str) -> str:
        """The issuer that alone answers at a configured redirect URI: `issuer`, unless there is one already, kept."""

        def claim(file: _File) -> tuple[str, _File]:
            if (before := file.only_for.get(uri)) is not None:
                return before, file
            return issuer, replace(file, only_for=dict([*file.only_for.items(), (uri, issuer)][-MAX_URIS:]))

        return self._change(claim)

    def port(self) -> int | None:
        """The port that was picked once for browsers to come back to."""
        return self._read().port

    def keep_port(self, port: int | None) -> None:
        """Keep the port, or forget it."""
        self._change(lambda file: (None, replace(file, port=port)))

    def is_agreed(self, upstream: str, principal: str, issuer: str) -> bool:
        """True if the person has said yes to this issuer for this upstream."""
        return Agreed(upstream, principal, issuer) in self._read().agreed

    def agree(self, upstream: str, principal: str, issuer: str) -> None:
        """Keep that the person said yes."""
        yes = Agreed(upstream, principal, issuer)

        def add(file: _File) -> tuple[None, _File]:
            others = tuple(each for each in file.agreed if each != yes)
            return None, replace(file, agreed=(*others, yes)[-MAX_AGREED:])

        self._change(add)

    def long_removed(self, kept: Collection[str], configured: Collection[str], now: float) -> list[str]:
        """The upstreams among `kept` that have not been `configured` for 30 days. `now` is wall time; to be called
        at each start, since that is when it is noted. Empty if the start before was as long ago: the clock may be
        ahead."""

        def note(file: _File) -> tuple[list[str], _File]:
            removed = {name: min(file.removed.get(name, now), now) for name in kept if name not in configured}
            is_credible = now - file.started <= REMOVED_FOR_S
            gone = sorted(name for name, since in removed.items() if is_credible and now - since > REMOVED_FOR_S)
            started = file.started if abs(now - file.started) < DAY_S else now
            removed = {name: at for name, at in removed.items() if name not in gone}
            return gone, replace(file, removed=removed, started=started)

        return self._change(note)

    def _change(self, change: Callable[[_File], tuple[R, _File]]) -> R:
        descriptor = open_lock(self._lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            before = self._read()
            result, after = change(before)
            if after != before:
                write_file(self._path, msgspec.json.format(msgspec.json.encode(after), indent=1) + b"\n")
            return result
        finally:
            os.close(descriptor)

    def _read(self) -> _File:
        data = read_file(self._path)
        if data is None:
            return _File()
        try:
            file = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            move_aside(self._path)
            return _File()
        if file.version != VERSION:
            raise NotKept(f"{self._path} was written by another version of hubd; use that one, or delete the file.")
        return file
