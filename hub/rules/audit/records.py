"""Records of the audit log: what is held of a call in the loop, and its members as JSON. Pure.

No record has an argument, a result or the query of a URI in it, unless `arguments = "full"` of a server says so. A
digest of arguments has a key of this installation, so that short values cannot be guessed.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from config.loading.split_accounts import whole_name
from config.settings import UpstreamConfig
from hub.bridge.sealed_request_state import FirstRound
from hub.link.call_interface import Identity
from hub.link.log_context import spell_ref
from hub.link.sync_primitives import Promise
from hub.rules.audit.lines import Draft, Stamps, draft
from hub.rules.fingerprints import hash_listed
from hub.rules.policy.verdict import Verdict
from hub.telemetry.operation_record import ASKED, CANCELLED, Ended, is_unknown, strip_uri
from hub.wire.jsonrpc import encode
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import Snapshot

LARGE_BYTES: Final = 64 << 10
"""Arguments up to this are written where they are wanted."""
DIGEST_BYTES: Final = 16
DEFINITION_CHARS: Final = 16
MAX_CHARS: Final = 200
"""Characters of a name, a label or another text."""
MAX_FACTS: Final = 4_096
"""Tools, by host, that are described."""
CLOCK: Final = perf_counter
"""The clock of all records, that of intents."""
BEGIN: Final = "begin"
END: Final = "end"
NOTE: Final = "note"


class Beginning(Struct, frozen=True, gc=False):
    """A call that has begun, once nobody has to approve it any more: what records say of it, and nothing that only
    calls have, so that little is held until a thread writes it."""

    ref: int
    at: float
    method: str
    kind: Kind | None
    name: str
    """As its host knows it."""
    own: str
    """The upstream's own name or URI."""
    config: UpstreamConfig
    snapshot: Snapshot
    """What its upstream offers."""
    who: Identity
    verdict: Verdict
    digest: bytes
    """Of its arguments; of a read, of its URI; its first `DIGEST_BYTES` are told."""
    size: int
    """Bytes of these."""
    first: FirstRound
    """The request in which a person was first asked about it, if that was another."""
    arguments: Raw | bytes | None = None
    """The arguments themselves, where the configuration wants them."""


Begin = tuple[Literal["begin"], Beginning, Promise[bool] | None]
"""A call begins; who waits until that is written."""
End = tuple[Literal["end"], Ended, Beginning | float, bool, None]
"""A call has ended, which began so, or at this time with a record of its own; True: the hub has cut it off."""
Note = tuple[Literal["note"], str, dict[str, Any], float, Promise[bool] | None]
"""Somebody has decided something: its kind and members."""


class Describe:
    """Describes calls as members of records, in JSON without braces. `mask` takes secrets out of texts. Used by one
    thread at a time."""

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self.stamps = Stamps()
        self._mask = mask
        self.released = 0
        """Bytes of arguments of the records that were described."""
        self._facts: dict[tuple[object, ...], tuple[Snapshot, bytes]] = {}
        """What is the same for all calls of one tool by one host, as long as its upstream offers the same."""
        self._generation = 1
        """The configuration in effect is the how manieth."""

    def draft(self, record: Begin | End | Note, offset: float) -> Draft:
        """The draft of a record. `offset`: from times of `CLOCK` to those of day."""
        if record[0] == NOTE:
            _, kind, members, at, _ = record
            return self._draft_note(self.stamps.at(at + offset), kind, members)
        if record[0] == BEGIN:
            _, begun, waiter = record
            text = b'"k":"begin","ref":"%08x",%b' % (begun.ref & 0xFFFFFFFF, self._beginning(begun, b"size"))
            return self.stamps.at(begun.at + offset), text, waiter is not None
        _, ended, since, is_cut_off, _ = record
        text = b'"k":"end","ref":"%08x",' % (ended.ref & 0xFFFFFFFF)
        if isinstance(since, Beginning):
            text += self._beginning(since, b"sent") + b","
            since = since.at
        return self.stamps.at(ended.at + offset), text + describe_ending(ended, ended.at - since, is_cut_off), False

    def _draft_note(self, t: bytes, kind: str, members: Mapping[str, Any]) -> Draft:
        if kind == "config":
            self._generation += 1
            self._facts.clear()
            members = {"gen": self._generation, **members}
        if isinstance(ref := members.get("ref"), int):
            members = {**members, "ref": spell_ref(ref)}
        if isinstance(name := members.get("name"), str) and ":" in name:  # no name of a tool has one
            members = {**members, "name": strip_uri(name)}
        texts = {name: self._mask(each)[:MAX_CHARS] for name, each in members.items() if isinstance(each, str)}
        try:
            return draft(t, {"k": kind, **members, **texts})
        except (TypeError, ValueError) as error:
            return draft(t, {"k": kind, "unreadable": str(error)[:MAX_CHARS]})

    def _beginning(self, begun: Beginning, size_name: bytes) -> bytes:
        """What is called, by whom, and by which rule."""
        who, snapshot = begun.who, begun.snapshot
        key = begun.name, snapshot.upstream, who.host, who.principal, begun.method, begun.verdict.rule
        facts = self._facts.get(key)
        if facts is None or facts[0] is not snapshot:
            if facts is not None or len(self._facts) >= MAX_FACTS:  # nor are lists kept that no upstream has any more
                self._facts.clear()
            facts = self._facts[key] = snapshot, self._describe(begun)
        text = b'%b,"args":"k:%b","%b":%d' % (
            facts[1],
            begun.digest[:DIGEST_BYTES].hex().encode(),
            size_name,
            begun.size,
        )
        if begun.first.ref:
            text += b',"first":"%b","since":"%b"' % (begun.first.ref.encode(), self.stamps.at(begun.first.at))
        if begun.arguments is not None:
            self.released += begun.size
            text += b',"arguments":' + encode(self._mask_arguments(begun.arguments))
        return text

    def _describe(self, begun: Beginning) -> bytes:
        members: dict[str, object] = {"gen": self._generation}
        members |= {"p": begun.who.principal[:MAX_CHARS], "host": begun.who.host[:MAX_CHARS]}
        members |= {"up": whole_name(begun.snapshot.upstream, begun.config), "m": begun.method}
        members["name"] = (begun.name if begun.kind is not None else strip_uri(begun.name))[:MAX_CHARS]
        if begun.kind is not None:
            found = hash_listed(begun.snapshot, begun.kind, begun.own, begun.config.pin_ignore)
            members["def"] = found[:DEFINITION_CHARS]
        members |= {"by": begun.verdict.effect.value, "rule": begun.verdict.rule[:MAX_CHARS]}
        return encode(members)[1:-1]

    def _mask_arguments(self, data: Raw | bytes) -> object:
        """Arguments as JSON without the secrets of the configuration; None: they are no JSON, or there are none."""
        try:
            value: object = msgspec.json.decode(self._mask(bytes(data).decode()))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return value


def describe_ending(ended: Ended, took_s: float, is_cut_off: bool) -> bytes:
    """How a call ended, as members in JSON without braces."""
    outcome = ended.outcome
    if not outcome:
        kind = b',"kind":"task"' if ended.is_task else b""
        return b'"out":"ok"%b,"ms":%d,"size":%d' % (kind, 1000 * took_s, ended.size)
    out = "unknown" if is_unknown(ended) else "error"
    if outcome in (ASKED, CANCELLED):
        out, outcome = "interrupted" if is_cut_off and outcome == CANCELLED else outcome, ""
    members: dict[str, object] = {"out": out, "kind": outcome, "executed": ended.executed}
    members = {name: each for name, each in members.items() if each}
    return encode(members | {"ms": int(1000 * took_s), "size": ended.size})[1:-1]
