"""Private files of hubd's own making, in its state directory: read or refused as a whole.

Of a file that somebody else may have read or written nothing is used.
"""

import shlex
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from config.safe_reading import is_foreign, read_private

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 1 << 20
T = TypeVar("T")


class StateUnreadable(Exception):
    """The file cannot be used. The text names it, says why, and what to do, which may be a `remedy` to run."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(f"{text}: {remedy}" if remedy else text)
        self.remedy = remedy


class StateFile(Generic[T]):
    """The form of one such file: entries of a type by name, in its member `member`, beside the number of its format."""

    def __init__(self, member: str, type: type[T], *, if_damaged: str, if_exposed: str = "") -> None:
        """`if_damaged`, `if_exposed`: the end of the advice for a file that is damaged, or that others may read."""
        self._member, self._if_damaged, self._if_exposed = member, if_damaged, if_exposed
        self._type: Any = msgspec.defstruct("File", [("format", int), (member, dict[str, type])])  # type: ignore[valid-type]

    def read(self, path: Path) -> dict[str, T]:
        """All entries by name; none if there is no file. Blocks.
        Raises: StateUnreadable, if the file is not as hubd writes it, or cannot be read."""
        try:
            data, found = read_private(path, MAX_FILE_BYTES)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateUnreadable(f"cannot read {path}: {error.strerror}") from None
        if is_foreign(found):
            raise StateUnreadable(f"{path} belongs to another user (uid {found.st_uid}): move it away")
        if found.st_mode & 0o077:
            remedy = f"run `chmod 600 {shlex.quote(str(path))}`{self._if_exposed}"
            raise StateUnreadable(f"other users may read {path}", remedy)
        try:
            file = msgspec.json.decode(data, type=self._type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.damage_error(path) from None
        if file.format != FORMAT:
            raise StateUnreadable(f"{path} was written by another version of hubd, which can read it")
        entries: dict[str, T] = getattr(file, self._member)
        return entries

    def damage_error(self, path: Path) -> StateUnreadable:
        """The error that says that the file is damaged."""
        return StateUnreadable(f"{path} is damaged: move it away, and {self._if_damaged}")

    def encode(self, entries: dict[str, T]) -> bytes:
        """The content of a file of these entries."""
        return msgspec.json.format(msgspec.json.encode(self._type(FORMAT, entries)), indent=1)
