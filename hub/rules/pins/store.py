"""Store of pins: for each server one private file with what was approved of it, whole definitions included.

A record is bound to what runs: the command and its arguments, or the URL. That of another command is none: whoever
changes these begins anew. A file that cannot be used, or was there and is gone, is not nothing: then nothing is
approved, and the reason is told.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from config.atomic_writes import replace_private
from config.diff import what_runs
from config.remembered_facts import Memory
from config.safe_reading import is_foreign, read_private
from config.settings import UpstreamConfig
from hub.rules.fingerprints import Definition, Fingerprint, fingerprint
from upstreams.inventory.last_known_lists import file_name

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 64 << 20
KEPT_APPROVALS: Final = 3
GONE_S: Final = 30 * 86_400.0
"""Time for which it is remembered what was approved of a definition that is not listed any more."""
ELSEWHERE: Final = "another hub of this user has written it"
"""The reason why a file is left as it is."""
PINNED: Final = "pinned"
"""The section of the memory that tells what runs under each name that has a file."""


class Approval(Struct):
    """Definitions of a server that were approved at one time, all that counted then."""

    at: float
    """Seconds since 1970."""
    by: str
    """`first sight` or `a person`."""
    items: dict[str, Fingerprint] = {}
    """By the keys of definitions."""


class PinRecord(Struct, kw_only=True):
    """The record of what was approved of one server."""

    format: int = FORMAT
    upstream: str
    runs: str
    """Digest of what runs (`what_runs`)."""
    seen: list[str] = field(default_factory=list)
    """Lists that were read once, so that what comes later is new."""
    approvals: list[Approval] = field(default_factory=list)
    """The last ones, the newest at the end."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    """Those that were approved, by hash."""
    gone: dict[str, float] = field(default_factory=dict)
    """By key, when an approved definition was first missing."""
    ignored: tuple[str, ...] = ()
    """The members without which the hashes were made (`pin_ignore`)."""
    noticed: str = ""
    """Hash of the state whose differences were told last; "": there were none."""

    @property
    def last(self) -> Approval | None:
        """The last approval."""
        return self.approvals[-1] if self.approvals else None

    @property
    def newest(self) -> Mapping[str, Fingerprint]:
        """The definitions as they were approved last."""
        return {} if self.last is None else self.last.items

    def approves(self, key: str, hash: str) -> bool:
        """True if this definition was approved, now or within the last approvals."""
        return any(key in each.items and each.items[key].hash == hash for each in self.approvals)

    def ignore(self, members: tuple[str, ...]) -> None:
        """Make all hashes without these members, and no others: what was approved stays so."""
        if members == self.ignored:
            return
        known, self.definitions = self.definitions, {}
        for approval in self.approvals:
            for key, before in approval.items.items():
                if (definition := known.get(before.hash)) is not None:
                    approval.items[key] = fingerprint(key, definition, members)
                    self.definitions[approval.items[key].hash] = definition
        self.ignored = members

    def accept(self, found: Mapping[str, Definition], at: float) -> None:
        """Take definitions, by their keys, for approved that were seen for the first time."""
        if not self.approvals:
            self.approvals.append(Approval(at, "first sight"))
        self.approvals[-1].items.update(self._keep(found))

    def _keep(self, found: Mapping[str, Definition]) -> dict[str, Fingerprint]:
        items = {key: fingerprint(key, each, self.ignored) for key, each in found.items()}
        self.definitions.update({items[key].hash: each for key, each in found.items()})
        return items

    def approve(self, found: Mapping[str, Definition], at: float) -> None:
        """Approve definitions beside what counts already; those that only earlier approvals had are forgotten."""
        items = {**self.newest, **self._keep(found)}
        self.approvals = [*self.approvals[1 - KEPT_APPROVALS :], Approval(at, "a person", items)]
        used = {each.hash for approval in self.approvals for each in approval.items.values()}
        self.definitions = {hash: each for hash, each in self.definitions.items() if hash in used}

    def note_gone(self, gone: Iterable[str], there: Collection[str], now: float) -> bool:
        """Note which approved definitions are missing, and forget those that were for long; true if that is news."""
        before = dict(self.gone)
        self.gone = {key: at for key, at in self.gone.items() if key not in there and key in self.newest}
        for key in gone:
            self.gone.setdefault(key, now)
        for key in [key for key, at in self.gone.items() if now - at > GONE_S]:
            del self.gone[key]
            for approval in self.approvals:
                approval.items.pop(key, None)
        return self.gone != before


class Opened(Struct):
    """The record of a server, as far as it can be used; an empty one, if there was none for what runs."""

    record: PinRecord
    problem: str = ""
    """The reason why nothing counts as approved though something may have been; "": that is not so."""
    was_other: bool = False
    """There was one for another command or URL."""


class PinFolder:
    """The files of all servers. With `directory` None nothing outlives the process. `memory` tells which files there
    should be."""

    def __init__(self, directory: Path | None, memory: Memory) -> None:
        self._directory = directory
        self._memory = memory
        self._seen: dict[str, bytes] = {}
        """Digests of the files as this hub has read or written them."""

    def open(self, name: str, config: UpstreamConfig) -> Opened:
        """Read the record of a server, which runs by this configuration. Blocks."""
        runs = what_runs(config)
        fresh = PinRecord(upstream=name, runs=runs)
        if self._directory is None:
            return Opened(fresh)
        path = self._directory / file_name(name)
        try:
            self._seen[name] = b""
            data, found = read_private(path, MAX_FILE_BYTES)
            self._seen[name] = sha256(data).digest()
            if is_foreign(found):
                return Opened(fresh, f"{path} belongs to another user")
            record = _decode(data)
        except FileNotFoundError:
            if self._memory.get(PINNED, name) == runs:
                return Opened(fresh, f"{path} was there and is gone")
            return Opened(fresh)
        except OSError as error:
            return Opened(fresh, f"{path} cannot be read: {error.strerror}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Opened(fresh, f"{path} is damaged")
        if record.format != FORMAT or record.upstream != name:
            return Opened(fresh, f"{path} was written by another version of hubd, or for another server")
        if record.runs != runs:
            return Opened(fresh, was_other=True)
        return Opened(record)

    def encode(self, record: PinRecord) -> bytes:
        """The content of the file of a record. Raises: UnicodeEncodeError, it holds what is no text."""
        self._memory.put(PINNED, record.upstream, record.runs)
        return msgspec.json.encode(record)

    def write_all(self, drafts: Mapping[str, bytes]) -> dict[str, str]:
        """Replace the files of these servers; why some could not be, by name. Blocks for an fsync each. One that is
        another than this hub has left stays: `ELSEWHERE`."""
        problems: dict[str, str] = {}
        if self._directory is None:
            return problems
        for name, data in drafts.items():
            path = self._directory / file_name(name)
            try:
                if _digest(path) != self._seen.get(name):
                    problems[name] = ELSEWHERE
                    continue
                replace_private(path, data)
                self._seen[name] = sha256(data).digest()
            except OSError as error:
                problems[name] = f"cannot save the pins of {name}: {error.strerror}"
        return problems


def _digest(path: Path) -> bytes:
    try:
        return sha256(read_private(path, MAX_FILE_BYTES).data).digest()
    except OSError:
        return b""


_decode: Final = msgspec.json.Decoder(PinRecord).decode
