"""The file `tokens.json`: the tokens of hosts that `hubd token new` made, as hashes.

    tokens = HostTokens(tokens_path())
    tokens.make("ci", ...)              ->  the token, which is kept nowhere
    tokens.rotate("ci", grace_s=86400)  ->  another one; the one before counts for a day
    tokens.revoke("ci")

Each method reads the file, so that another process may change it meanwhile. A file that other users may have read or
written is refused as a whole: no token in it counts. All methods block.
"""

import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from config.errors import EditError
from config.files import locked, replace_private
from config.secrets.state_file import StateFile, StateUnreadable

PREFIX: Final = "hubd_"
MAX_TOKENS: Final = 1000


class Former(Struct, frozen=True):
    """The token before a rotation."""

    hash: str
    until: float
    """Wall time from which it does not count any more."""


class KeptToken(Struct, frozen=True, kw_only=True):
    """One token, or rather its hash."""

    hash: str
    """SHA-256 in hexadecimal digits."""
    principal: str = ""
    """"": the hub's owner."""
    host: str = ""
    """The label of the host; "": the name of the token."""
    made: float = 0.0
    expires: float | None = None
    """Wall time from which it does not count any more; None: for ever."""
    profile: str = ""
    """The profile that it opens, and nothing else; "": it chooses none."""
    former: Former | None = None


TOKENS: Final = StateFile("tokens", KeptToken, if_damaged="make its tokens again")


def hash_of(token: str) -> str:
    """The hash under which a token is kept."""
    return sha256(token.encode()).hexdigest()


class HostTokens:
    """The tokens that were made on this machine. `wall`: the time of day in seconds."""

    def __init__(self, path: Path, wall: Callable[[], float]) -> None:
        self.path = path
        self._wall = wall

    def all(self) -> dict[str, KeptToken]:
        """All tokens by name.

        Raises:
            EditError: the file cannot be used.
        """
        try:
            return TOKENS.read(self.path)
        except StateUnreadable as error:
            raise EditError(str(error)) from None

    def make(
        self, name: str, *, principal: str = "", host: str = "", expires: float | None = None, profile: str = ""
    ) -> str:
        """Make a token; it is returned here and kept nowhere.

        Raises:
            EditError: there is one of that name, there are too many, or the file cannot be used.
        """
        token = _new()
        with locked(self.path.parent):
            known = self.all()
            if name in known:
                raise EditError(f"there is a token {name} already; `hubd token rotate {name}` replaces it")
            if len(known) >= MAX_TOKENS:
                raise EditError(f"there are {MAX_TOKENS} tokens; `hubd token revoke` takes one back")
            kept = KeptToken(
                hash=hash_of(token), principal=principal, host=host, made=self._wall(), expires=expires, profile=profile
            )
            self._write({**known, name: kept})
        return token

    def rotate(self, name: str, *, grace_s: float) -> str:
        """Make another token of that name; the one before counts for `grace_s` seconds.

        Raises:
            EditError: there is none, or the file cannot be used.
        """
        token, now = _new(), self._wall()
        with locked(self.path.parent):
            known = self.all()
            kept = _of(known, name)
            former = Former(kept.hash, now + grace_s) if grace_s > 0 else None
            known[name] = msgspec.structs.replace(kept, hash=hash_of(token), made=now, former=former)
            self._write(known)
        return token

    def revoke(self, name: str) -> None:
        """Take a token back.

        Raises:
            EditError: there is none, or the file cannot be used.
        """
        with locked(self.path.parent):
            known = self.all()
            _of(known, name)
            del known[name]
            self._write(known)

    def _write(self, tokens: dict[str, KeptToken]) -> None:
        try:
            replace_private(self.path, TOKENS.encode(tokens))
        except OSError as error:
            raise EditError(f"{self.path}: cannot be written: {error.strerror}; nothing was changed") from None


def _new() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _of(known: dict[str, KeptToken], name: str) -> KeptToken:
    if (kept := known.get(name)) is None:
        raise EditError(f"there is no token {name}; `hubd token list` lists what there is")
    return kept
