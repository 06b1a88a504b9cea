"""Reading of an audit log: whether it is whole, what of it is asked for, which calls of it have no end. Pure.

The files of a log are given as lines, the oldest first; `hub.rules.audit.lines` says what a line is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
from msgspec import Struct

from config.server_names import server_of
from hub.rules.audit.lines import hash_of

Record = dict[str, Any]
REFUSED: Final = frozenset({"refuse", "deny"})
"""Kinds of records of what was not done, whatever they say."""
CALL: Final = ("p", "host", "up", "m", "name", "def", "args", "by", "rule")
"""Members of a `begin` that its `end` is shown with."""


class File(NamedTuple):
    """One file of a log."""

    name: str
    lines: BinaryIO
    """With their ends; the last one of the newest file may lack it."""


class Flaw(NamedTuple):
    """The first line of a log that is not as it was written."""

    file: str
    line: int
    why: str


class Verified(NamedTuple):
    """The outcome of a look at a whole log."""

    records: int = 0
    head: str = ""
    """The hash of the last record; "": there is none."""
    flaw: Flaw | None = None
    has_head: bool = True
    """False: no record has the hash that was asked for."""
    number: int = 0
    """The number of the last record."""


class _Known(Struct):
    """The members of a record that the chain needs."""

    n: int
    k: str
    ref: str = ""
    prev: str = ""
    lost: object = None
    """Of an `open`, True: records before it were removed by somebody else."""
    pruned: object = None
    """Of an `open`: the first number that the hub left when it removed old files."""


_decode_known: Final = msgspec.json.Decoder(_Known).decode
_decode: Final = msgspec.json.Decoder(Record).decode


def read_end(line: bytes) -> tuple[int, str, str] | None:
    """The number, the hash and the kind of the record of a whole line; None: it is none."""
    known, (found, _) = _read(line), hash_of(line.rstrip(b"\n"), "")
    return (known.n, found, known.k) if known is not None and found else None


def _read(line: bytes) -> _Known | None:
    """The members of a line that the chain needs; None: it is no record."""
    try:
        return _decode_known(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def verify(files: Sequence[File], head: str = "", known_as: tuple[int, str] = (0, "")) -> Verified:
    """Look at every line of a log. `head`: a hash, or its beginning, that one of them has to have; "": none has to.
    `known_as`: the number of a record, and the hash that it had when it was written."""
    number, before, count, has_head = 0, "", 0, not head
    first = left = 1  # the first number, and the one that the hub says it left
    for file in files:
        for at, line in enumerate(file.lines, 1):
            is_whole = line.endswith(b"\n")
            if not is_whole and file is files[-1]:  # the hub may be writing it
                break
            known = _read(line) if is_whole else None
            if known is not None and not count:  # those before it are older than what is kept
                first, number, before = known.n, known.n - 1, known.prev
            said, right = hash_of(line[:-1], before)
            why = ""
            if not is_whole:
                why = "has no end"
            elif known is None:
                why = "is no record"
            elif at == 1 and known.prev != before:
                why = "does not follow the file before it: records in between are missing, or were changed"
            elif said != right or not said:
                why = "was changed, or the record before it was changed or removed"
            elif known.n != number + 1:
                why = f"should be record {number + 1}"
            elif known.n == known_as[0] and said != known_as[1]:
                why = f"is not record {known.n} as the hub has written it"
            elif known.k == "open" and known.lost is True:
                why = "says that records before it are missing: somebody else removed or cut the log"
            if why or known is None:
                return Verified(count, before, Flaw(file.name, at, why), has_head)
            number, before, count = number + 1, said, count + 1
            if known.k == "open" and isinstance(known.pruned, int):
                left = max(left, known.pruned)
            has_head = has_head or said.startswith(head)
    if first > left:
        why = f"is record {first}, and no other one says that the hub removed those before it"
        return Verified(0, "", Flaw(files[0].name, 1, why), has_head)
    return Verified(count, before, None, has_head, number)


def find_open_calls(lines: Iterable[bytes]) -> list[str]:
    """The refs of calls that have a `begin` and no `end`, the oldest first."""
    found: dict[str, None] = {}
    for line in lines:
        known = _read(line)
        if known is not None and known.k == "begin":
            found[known.ref] = None
        elif known is not None and known.k == "end":
            found.pop(known.ref, None)
    return list(found)


class Query(Struct, frozen=True, kw_only=True):
    """The records that are asked for; "" and False: it does not matter."""

    tool: str = ""
    """A glob over names as hosts see them."""
    upstream: str = ""
    host: str = ""
    since: str = ""
    """A time in the form of records."""
    refused: bool = False
    ref: str = ""


def select(
    lines: Iterable[bytes], wanted: Query, begun: dict[str, Record] | None = None
) -> Iterator[tuple[Record, Record]]:
    """The records that are wanted, each with what it is shown with: an `end` with the members of its `begin`. `begun`
    has those of earlier lines by their refs, and gets those of these."""
    begun = {} if begun is None else begun
    for line in lines:
        try:
            record = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        shown, kind, ref = record, record.get("k"), str(record.get("ref"))
        if kind == "begin":
            begun[ref] = record
        elif kind == "end" and (begin := begun.pop(ref, None)) is not None:
            shown = {**record, **{name: begin[name] for name in CALL if name in begin}}
        if _is_wanted(shown, wanted):
            yield record, shown


def _is_wanted(shown: Mapping[str, Any], wanted: Query) -> bool:
    server = str(shown.get("up", ""))
    if (wanted.host and shown.get("host") != wanted.host) or wanted.upstream not in ("", server, server_of(server)):
        return False
    if wanted.ref and wanted.ref not in (shown.get("ref"), shown.get("first")):
        return False
    if wanted.tool and not fnmatchcase(str(shown.get("name", "")), wanted.tool):
        return False
    if wanted.since and str(shown.get("t")) < wanted.since:
        return False
    return not wanted.refused or shown.get("k") in REFUSED or shown.get("decision") == "deny"
