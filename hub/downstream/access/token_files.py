"""Files of tokens that open the hub: `token`, the hub's own, made at the first start; and `tokens.json`, the tokens of
hosts that `hubd token new` made, as hashes.

Each method of `HostTokens` reads the file, so that another process may change it meanwhile. A file that other users may
have read or written is refused as a whole: no token in it counts. All methods block.
"""

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from config.atomic_writes import lock_edits, replace_private
from config.diagnostics import ConfigError, EditError
from config.private_directories import make_dirs
from config.safe_reading import read_private
from config.secrets.private_state_files import StateFile, StateUnreadable
from config.settings import TOKEN

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
        """All tokens by name. Raises EditError: the file cannot be used."""
        try:
            return TOKENS.read(self.path)
        except StateUnreadable as error:
            raise EditError(str(error)) from None

    def make(
        self, name: str, *, principal: str = "", host: str = "", expires: float | None = None, profile: str = ""
    ) -> str:
        """Make a token; it is returned here and kept nowhere. Raises EditError: there is one of that name, there are
        too many, or the file cannot be used."""
        token = _new()
        with self._edit() as known:
            if name in known:
                raise EditError(f"there is a token {name} already; `hubd token rotate {name}` replaces it")
            if len(known) >= MAX_TOKENS:
                raise EditError(f"there are {MAX_TOKENS} tokens; `hubd token revoke` takes one back")
            known[name] = KeptToken(
                hash=hash_of(token), principal=principal, host=host, made=self._wall(), expires=expires, profile=profile
            )
        return token

    def rotate(self, name: str, *, grace_s: float) -> str:
        """Make another token of that name; the one before counts for `grace_s` seconds. Raises EditError: there is
        none, or the file cannot be used."""
        token, now = _new(), self._wall()
        with self._edit() as known:
            kept = _of(known, name)
            former = Former(kept.hash, now + grace_s) if grace_s > 0 else None
            known[name] = msgspec.structs.replace(kept, hash=hash_of(token), made=now, former=former)
        return token

    def revoke(self, name: str) -> None:
        """Take a token back. Raises EditError: there is none, or the file cannot be used."""
        with self._edit() as known:
            _of(known, name)
            del known[name]

    @contextmanager
    def _edit(self) -> Iterator[dict[str, KeptToken]]:
        """All tokens by name, to be changed within; they are written at the end."""
        with lock_edits(self.path.parent):
            known = self.all()
            yield known
            try:
                replace_private(self.path, TOKENS.encode(known))
            except OSError as error:
                raise EditError(f"{self.path}: cannot be written: {error.strerror}; nothing was changed") from None


def _new() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _of(known: dict[str, KeptToken], name: str) -> KeptToken:
    if (kept := known.get(name)) is None:
        raise EditError(f"there is no token {name}; `hubd token list` lists what there is")
    return kept


TOKEN_BYTES: Final = 32
MAX_FILE_BYTES: Final = 4096
_TOKEN = re.compile(TOKEN)


def check_token(text: str) -> str:
    """Check the setting `token`: a host must be able to send it. Raises ConfigError: it is too short, or not what a
    bearer token may be; the text does not repeat it."""
    if not _TOKEN.fullmatch(text):
        raise ConfigError("token: must be 16 or more of A-Z a-z 0-9 . _ ~ + / -; `openssl rand -hex 32` makes one")
    return text


def read_or_make_token(path: Path) -> str:
    """The bearer token kept in `path` (mode 0600), made at the first call: 256 random bits.

    Of several daemons that start at once, all get the same token. Raises ConfigError: the file is not ours, is readable
    by others, or holds no token; OSError: it cannot be read or written."""
    try:
        return read_token(path)
    except FileNotFoundError:
        _make_token(path)
        return read_token(path)


def read_token(path: Path) -> str:
    """The bearer token kept in `path`. Raises as `read_or_make_token`; FileNotFoundError: there is none."""
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EFBIG):
            raise ConfigError(f"{path}: {error.strerror}; delete it, and a new token is made") from None
        raise
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user; delete it, and a new token is made")
    if found.st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others; delete it for a new token, or run: chmod 600 {path}")
    text = data.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"{path} holds no token (16 or more of A-Z a-z 0-9 . _ ~ + / -); delete it for a new one")
    return text


def replace_token(path: Path) -> None:
    """Replace the token kept in `path`, if there is one: another user may know it. Raises OSError: it cannot be
    written. Then the old one is gone all the same, if that can be done."""
    if not os.path.lexists(path):
        return
    path.unlink()
    _make_token(path)


def _make_token(path: Path) -> None:
    make_dirs(str(path.parent))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another daemon was first: its token it is
            os.link(draft, path)  # never replaces, and never shows half a token
    finally:
        draft.unlink()
