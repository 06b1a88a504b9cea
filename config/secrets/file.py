"""The file `secrets.json`: of each secret that `hubd secret` keeps, its value, or that the keyring has it.

Read here, written by `config.secrets.store`. Whatever is not as hubd writes it is refused as a whole: of a file that
somebody else may have read or written no value is used.
"""

import shlex
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from config.loading.safe_reading import is_foreign, read_private
from config.references import NUL, is_name

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 1 << 20
MAX_VALUE_BYTES: Final = 1 << 16


class SecretsUnreadable(Exception):
    """The file cannot be used. The text names it, says why, and what to do."""


class KeptSecret(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One secret."""

    version: str
    """Changes whenever the value does."""
    value: str | None = None
    """None: the keyring has it."""
    keyring: bool = False

    def __repr__(self) -> str:
        return f"<KeptSecret in the {'keyring' if self.keyring else 'file'}>"


class _File(Struct, frozen=True):
    format: int
    secrets: dict[str, KeptSecret]


def read_secrets(path: Path) -> dict[str, KeptSecret]:
    """All secrets by name; none if there is no file. Blocks.

    Raises:
        SecretsUnreadable: the file is not as hubd writes it, or cannot be read.
    """
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SecretsUnreadable(f"cannot read {path}: {error.strerror}") from None
    if is_foreign(found):
        raise SecretsUnreadable(f"{path} belongs to another user (uid {found.st_uid}): move it away")
    if found.st_mode & 0o077:
        todo = f"run `chmod 600 {shlex.quote(str(path))}`, and set anew what others may have read"
        raise SecretsUnreadable(f"other users may read {path}: {todo}")
    return _decode(path, data)


def _decode(path: Path, data: bytes) -> dict[str, KeptSecret]:
    damaged = f"{path} is damaged: move it away, and set its secrets again with `hubd secret set`"
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SecretsUnreadable(damaged) from None
    if file.format != FORMAT:
        raise SecretsUnreadable(f"{path} was written by another version of hubd, which can read it")
    for name, kept in file.secrets.items():
        is_hex = all(character in "0123456789abcdef" for character in kept.version)
        if not is_name(name) or (kept.value is None) != kept.keyring or not is_hex or NUL in (kept.value or ""):
            raise SecretsUnreadable(damaged)
    return file.secrets


def encoded(secrets: dict[str, KeptSecret]) -> bytes:
    """The content of a file of these secrets."""
    return msgspec.json.format(msgspec.json.encode(_File(FORMAT, secrets)), indent=1)
