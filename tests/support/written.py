"""The files below a folder and what is in them, while a hub writes there: a draft that becomes a file in between is
passed over."""

import os
from collections.abc import Iterator
from pathlib import Path


def written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Each regular file below `folder`, and its bytes."""
    for top, _, names in os.walk(folder):
        for path in (Path(top, name) for name in names):
            try:
                if path.is_file():
                    yield path, path.read_bytes()
            except FileNotFoundError:  # renamed between the two
                continue
