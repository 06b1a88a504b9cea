"""Last known lists, kept between runs, so that after a restart hosts see them while the upstreams still start; and when
each was connected last (`LastConnected`).

One file per upstream, 0600 and replaced as a whole, of two lines: a `_Head`, then the `Snapshot` it vouches for. It is
used only for an upstream that is still started or reached in the same way (`config_key`), and only if every byte is as
it was written. A file that cannot be read is ignored, one that cannot be written is tried again, one of a newer hubd is
left alone. Files are read and written in threads.

Remembered, too: upstreams that did not say in time what they offer when they were started last (`LATE`). The first list
of a host does not wait for them again; what they offer follows as `list_changed`. And when a server was connected last:
`hubd import --disable-originals` takes out of hosts what was connected, and had listed what it offers, within a day.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Struct, structs

from config.atomic_writes import replace_private
from config.diff import config_key
from config.remembered_facts import Memory
from config.safe_reading import read_private
from config.server_names import is_server_id, suggest_id
from config.settings import UpstreamConfig
from hub.wire.upstream_snapshot import Snapshot
from upstreams.inventory.current_lists import is_local

log = logging.getLogger(__name__)

FORMAT: Final = 1
"""To be raised with every change of `Snapshot` or of what its members mean."""
MAX_FILE_BYTES: Final = 40 << 20
"""More than four lists of the largest size that is read of an upstream."""
SAVE_AFTER_S: Final = 1.0
"""Time that changes are gathered before they are written."""
RETRY_S: Final = 30.0
MAX_STEM: Final = 16
"""Characters of an upstream's name that its file is called by; longer names have a hash there."""
KEEP_DAYS: Final = 30
"""Days for which the file of an upstream that is not configured any more is kept."""
LATE: Final = "late"
"""The section of the memory that names them, by `config_key`."""


class _Head(Struct, frozen=True):
    format: int
    upstream: str = ""
    config: str = ""
    """`config_key` of the upstream."""
    sha256: str = ""
    """Digest of the second line."""


class ListsDraft(Struct, frozen=True):
    """The content of the file of one upstream."""

    config: str
    snapshot: Snapshot


class LastKnown:
    """Snapshots of all upstreams, on disk. With `directory` None nothing outlives the process.

    `wall` is the time of day in seconds. `run` must be running; `save` is for the end.
    """

    def __init__(self, directory: Path | None, wall: Callable[[], float] = lambda: 0.0) -> None:
        self._directory = directory
        self._wall = wall
        self._loaded: dict[str, ListsDraft | None] = {}
        """The lists that `prepare` has found, by upstream."""
        self._unsaved: dict[str, ListsDraft] = {}
        self._digests: dict[str, str] = {}
        """Digests of what is in each file, as far as known."""
        self._left_alone: set[str] = set()
        self._dirty = trio.Event()
        self.problem = ""
        """The reason why something is not saved; "": everything is, or soon will be."""

    # --- reading

    async def prepare(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Read the files of these upstreams, so that `find` need not; remove files that were not used for long."""
        if self._directory is not None:
            names = [name for name in configs if name not in self._loaded and name not in self._unsaved]
            self._loaded |= dict.fromkeys(names)
            self._loaded |= await trio.to_thread.run_sync(self._read_all, self._directory, names)
            await trio.to_thread.run_sync(self._prune, self._directory)

    def find(self, name: str, config: UpstreamConfig) -> Snapshot | None:
        """The snapshot that this upstream offered last; None: nothing is known. Reads a file if `prepare` has not."""
        if config.disabled:
            return None
        if name in self._unsaved:
            draft: ListsDraft | None = self._unsaved[name]
        elif name in self._loaded or self._directory is None:
            draft = self._loaded.pop(name, None)
        else:
            draft = self._read_all(self._directory, [name]).get(name)
        if draft is None or draft.config != config_key(config):
            return None
        return structs.replace(draft.snapshot, local=is_local(config))

    def _read_all(self, directory: Path, names: Iterable[str]) -> dict[str, ListsDraft]:
        found: dict[str, ListsDraft] = {}
        for name in names:
            path = directory / file_name(name)
            try:
                head, draft = _decode(read_private(path, MAX_FILE_BYTES).data)
                with suppress(OSError):
                    os.utime(path, follow_symlinks=False)  # counts as used now
            except FileNotFoundError:
                continue
            except _Newer:
                self._left_alone.add(name)
                log.warning("%s was written by a newer hubd; it is left alone and not used", path)
                continue
            except (OSError, ValueError, RecursionError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is damaged"
                log.warning("cannot use %s (%s); %s is shown once it has listed what it offers", path, reason, name)
                continue
            if head.upstream == name:
                found[name] = draft
                self._digests[name] = head.sha256
        return found

    def _prune(self, directory: Path) -> None:
        """Remove files that were not used in `KEEP_DAYS`; the time of a file says when it was used last."""
        oldest = self._wall() - KEEP_DAYS * 86_400
        with suppress(OSError):
            for entry in os.scandir(directory):
                if entry.stat(follow_symlinks=False).st_mtime < oldest and _is_ours(Path(entry.path)):
                    os.unlink(entry.path)

    # --- writing

    def note(self, name: str, config: UpstreamConfig, snapshot: Snapshot) -> None:
        """An upstream has listed what it offers. It is saved soon, if it differs from before."""
        if self._directory is not None and name not in self._left_alone:
            self._unsaved[name] = ListsDraft(config_key(config), structs.replace(snapshot, degraded=()))
            self._dirty.set()

    async def run(self) -> None:
        """Save what changes, for ever."""
        while True:
            await self._dirty.wait()
            await trio.sleep(SAVE_AFTER_S)
            self._dirty = trio.Event()
            drafts, self._unsaved = self._unsaved, {}
            self._saved(drafts, await trio.to_thread.run_sync(self._write_all, drafts))
            if self.problem:
                await trio.sleep(RETRY_S)

    def save(self) -> None:
        """Save at once what is unsaved. Blocks; never raises."""
        drafts, self._unsaved = self._unsaved, {}
        self._saved(drafts, self._write_all(drafts))

    def _saved(self, drafts: Mapping[str, ListsDraft], problems: Mapping[str, str]) -> None:
        for name in problems:
            self._unsaved.setdefault(name, drafts[name])
            self._dirty.set()
        if (problem := next(iter(problems.values()), "")) and not self.problem:
            log.warning("%s; it is kept in memory, and tried again", problem)
        self.problem = problem

    def _write_all(self, drafts: Mapping[str, ListsDraft]) -> dict[str, str]:
        """Write those that differ from what is on disk; why some could not be, by name."""
        problems: dict[str, str] = {}
        for name, draft in drafts.items():
            assert self._directory is not None
            path = self._directory / file_name(name)
            try:
                body = msgspec.json.encode(draft.snapshot)
                head = _Head(FORMAT, name, draft.config, sha256(draft.config.encode() + body).hexdigest())
                if self._digests.get(name) == head.sha256 or len(body) > MAX_FILE_BYTES:
                    continue
                replace_private(path, msgspec.json.encode(head) + b"\n" + body)
                self._digests[name] = head.sha256
            except (OSError, UnicodeEncodeError) as error:
                problems[name] = f"cannot save {path}: {error.strerror if isinstance(error, OSError) else error}"
        return problems


class _Newer(ValueError):
    """A file that a newer hubd has written."""


def file_name(upstream: str) -> str:
    """A file name that is valid on every system and belongs to no other upstream."""
    if len(upstream) <= MAX_STEM and is_server_id(upstream):
        return f"{upstream}.json"
    return f"{suggest_id(upstream, MAX_STEM)}-{sha256(upstream.encode()).hexdigest()[:16]}.json"


def _decode(data: bytes) -> tuple[_Head, ListsDraft]:
    """Decode a file. Raises _Newer: it has another format than this hubd writes; ValueError: it is damaged."""
    first, _, body = data.partition(b"\n")
    if (head := msgspec.json.decode(first, type=_Head)).format > FORMAT:
        raise _Newer
    if sha256(head.config.encode() + body).hexdigest() != head.sha256 or head.format != FORMAT:
        raise ValueError("damaged")
    return head, ListsDraft(head.config, msgspec.json.decode(body, type=Snapshot))


def _is_ours(path: Path) -> bool:
    """True if a file is one that this hubd may throw away: of its format, or a draft that was never finished."""
    if path.suffix == ".new":
        return True
    if path.suffix != ".json":
        return False
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return msgspec.json.decode(file.readline(4096), type=_Head).format <= FORMAT
    except (ValueError, RecursionError):
        return True


SECTION: Final = "last_connected"
"""The section of the memory: seconds since 1970 by `config_key`."""
LATELY_S: Final = 86_400.0
"""Seconds for which a server that was connected counts as one that works."""
NOTED_AGAIN_S: Final = 900.0
"""Time after which a server that is still connected is noted again, so that the memory is seldom written."""


class LastConnected(Struct, eq=False):
    """The times at which servers were connected last. `wall` is the time of day in seconds."""

    memory: Memory
    wall: Callable[[], float]

    def note(self, config: UpstreamConfig) -> None:
        """A server that is configured so is connected now, and has listed what it offers."""
        key = config_key(config)
        if (ago_s := self._ago_s(key)) is not None and ago_s < NOTED_AGAIN_S:
            return
        for other in self.memory.keys(SECTION):
            if self._ago_s(other) is None:
                self.memory.put(SECTION, other, None)
        self.memory.put(SECTION, key, round(self.wall()))

    def ago_s(self, config: UpstreamConfig) -> float | None:
        """Seconds since a server that is configured so was connected; None: not within `LATELY_S`."""
        return self._ago_s(config_key(config))

    def _ago_s(self, key: str) -> float | None:
        if not isinstance(at := self.memory.get(SECTION, key), int | float):
            return None
        ago_s = self.wall() - at
        return max(0.0, ago_s) if abs(ago_s) <= LATELY_S else None
