"""The hub's own token, which opens it to its owner: kept in a file, made at the first start."""

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from config.directories import make_dirs
from config.errors import ConfigError
from config.loading.safe_reading import read_private
from config.settings import TOKEN

TOKEN_BYTES: Final = 32
MAX_FILE_BYTES: Final = 4096
_TOKEN = re.compile(TOKEN)


def check_token(text: str) -> str:
    """Check the setting `token`: a host must be able to send it.

    Raises:
        ConfigError: it is too short, or not what a bearer token may be; the text does not repeat it.
    """
    if not _TOKEN.fullmatch(text):
        raise ConfigError("token: must be 16 or more of A-Z a-z 0-9 . _ ~ + / -; `openssl rand -hex 32` makes one")
    return text


def read_or_make_token(path: Path) -> str:
    """The bearer token kept in `path` (mode 0600), made at the first call: 256 random bits.

    Of several daemons that start at once, all get the same token.

    Raises:
        ConfigError: the file is not ours, is readable by others, or holds no token.
        OSError: it cannot be read or written.
    """
    try:
        return _read_token(path)
    except FileNotFoundError:
        _make_token(path)
        return _read_token(path)


def _read_token(path: Path) -> str:
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
    """Replace the token kept in `path`, if there is one: another user may know it.

    Raises:
        OSError: it cannot be written. Then the old one is gone all the same, if that can be done.
    """
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
