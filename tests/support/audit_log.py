"""The files of an audit log, as tests read them."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from hub.rules.audit.reading import File


def all_lines(paths: Sequence[Path]) -> Iterator[bytes]:
    """The lines of a log."""
    return (line for path in paths for line in path.read_bytes().splitlines(keepends=True))


def read_files(paths: Sequence[Path]) -> list[File]:
    """The files of a log, as `reading.verify` takes them."""
    return [File(path.name, BytesIO(path.read_bytes())) for path in paths]
