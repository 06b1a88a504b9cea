"""The log that the last hub left on disk, for `hubd logs` where none runs."""

import json
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from upstreams.status_facts import JournalRecord

MAX_BYTES: Final = 8 << 20
"""The part of the file that is read, from its end; hubs begin another one at 4 MiB."""


def last_records(path: Path, lines: int) -> list[JournalRecord]:
    """The last records of the file, at most `lines`; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_BYTES))
            data = file.read(MAX_BYTES)
    except OSError:
        return []
    return list(deque(_records(data.decode(errors="replace").splitlines()), maxlen=lines))


def _records(lines: list[str]) -> Iterator[JournalRecord]:
    """Records of lines: JSON of the hub's log, or what else was written there, which counts as of that time."""
    at = 0.0
    for line in lines:
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            found = json.loads(line)
            at = datetime.fromisoformat(found["time"]).timestamp()
            text = "\n".join(str(found[key]) for key in ("message", "error") if key in found)
            yield JournalRecord(at, str(found["level"]), text, name="hub")
            continue
        yield JournalRecord(at, "stderr", line, name="hub")
