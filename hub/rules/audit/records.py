"""Records of the audit log: what is held of a call in the loop, and its members as JSON. Pure.

No record has an argument, a result or the query of a URI in it, unless `arguments = "full"` of a server says so. A
digest of arguments has a key of this installation, so that short values cannot be guessed.
"""

from collections.abc import Callable, Iterable, Mapping
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
from hub.rules.audit.lines import Draft, Stamps, spell_members
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
CLOCK: Final = perf_counter
"""The clock of all records, that of intents."""
BEGIN: Final = "begin"
END: Final = "end"
NOTE: Final = "note"
FLUSH: Final = "flush"
"""In place of the kind of a note: nothing but that somebody waits for what is before it."""


class CallFacts(Struct):
    """What is the same for all calls of one tool by one host, as long as its upstream and the hub's configuration are.
    Described once, by a thread."""

    generation: int
    """The configuration in effect is the how manieth."""
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
    text: str = ""
    """All this as members of JSON; "": nobody has asked yet."""


class Beginning(Struct, frozen=True, gc=False):
    """A call that has begun, once nobody has to approve it any more: what records say of it, and nothing that only
    calls have, so that little is held until a thread writes it."""

    ref: int
    at: float
    facts: CallFacts
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

    def draft(self, records: Iterable[Begin | End | Note], offset: float) -> list[Draft]:
        """The drafts of records. `offset`: from times of `CLOCK` to those of day."""
        drafts, stamp = [], self.stamps.at
        for record in records:  # few functions of ours are called for a plain call, since every call comes by
            if record[0] == END:
                _, ended, began, is_cut_off, _ = record
                at, more, waits = ended.at, "", False
                if isinstance(began, Beginning):
                    more = f"{self._beginning(began, 'sent')},"
                    began = began.at
                if ended.outcome or ended.is_task:
                    more += describe_ending(ended, at - began, is_cut_off)
                else:
                    more += f'"out":"ok","ms":{int(1000 * (at - began))},"size":{ended.size}'
                text = f'"k":"end","ref":"{spell_ref(ended.ref)}",{more}'
            elif record[0] == BEGIN:
                _, begun, waiter = record
                at, waits = begun.at, waiter is not None
                text = f'"k":"begin","ref":"{spell_ref(begun.ref)}",{self._beginning(begun, "size")}'
            else:
                _, kind, members, at, _ = record
                if kind == FLUSH:
                    continue
                text, waits = self._note(kind, members), False
            drafts.append((stamp(at + offset), text, waits))
        return drafts

    def _note(self, kind: str, members: Mapping[str, Any]) -> str:
        """What somebody has decided."""
        if isinstance(ref := members.get("ref"), int):
            members = {**members, "ref": spell_ref(ref)}
        if isinstance(name := members.get("name"), str) and ":" in name:  # no name of a tool has one
            members = {**members, "name": strip_uri(name)}
        texts = {name: self._mask(each)[:MAX_CHARS] for name, each in members.items() if isinstance(each, str)}
        try:
            return spell_members({"k": kind, **members, **texts})
        except (TypeError, ValueError) as error:
            return spell_members({"k": kind, "unreadable": str(error)[:MAX_CHARS]})

    def _beginning(self, begun: Beginning, size_name: str) -> str:
        """What is called, by whom, and by which rule."""
        facts, digest = begun.facts, begun.digest[:DIGEST_BYTES].hex()
        text = f'{facts.text or _describe(facts)},"args":"k:{digest}","{size_name}":{begun.size}'
        if begun.first.ref:
            text += f',"first":"{begun.first.ref}","since":"{self.stamps.at(begun.first.at)}"'
        if begun.arguments is not None:
            self.released += begun.size
            text += f',"arguments":{encode(self._mask_arguments(begun.arguments)).decode()}'
        return text

    def _mask_arguments(self, data: Raw | bytes) -> object:
        """Arguments as JSON without the secrets of the configuration; None: they are no JSON, or there are none."""
        try:
            value: object = msgspec.json.decode(self._mask(bytes(data).decode()))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return value


def _describe(facts: CallFacts) -> str:
    """The text of facts, which keep it."""
    members: dict[str, object] = {"gen": facts.generation}
    members |= {"p": facts.who.principal[:MAX_CHARS], "host": facts.who.host[:MAX_CHARS]}
    members |= {"up": whole_name(facts.snapshot.upstream, facts.config), "m": facts.method}
    members["name"] = (facts.name if facts.kind is not None else strip_uri(facts.name))[:MAX_CHARS]
    if facts.kind is not None:
        found = hash_listed(facts.snapshot, facts.kind, facts.own, facts.config.pin_ignore)
        members["def"] = found[:DEFINITION_CHARS]
    members |= {"by": facts.verdict.effect.value, "rule": facts.verdict.rule[:MAX_CHARS]}
    facts.text = spell_members(members)
    return facts.text


def describe_ending(ended: Ended, took_s: float, is_cut_off: bool) -> str:
    """How a call ended, if not well and for good, as members in JSON without braces."""
    outcome, ms = ended.outcome, int(1000 * took_s)
    if not outcome:
        return f'"out":"ok","kind":"task","ms":{ms},"size":{ended.size}'
    out = "unknown" if is_unknown(ended) else "error"
    if outcome in (ASKED, CANCELLED):
        out, outcome = "interrupted" if is_cut_off and outcome == CANCELLED else outcome, ""
    members: dict[str, object] = {"out": out, "kind": outcome, "executed": ended.executed}
    members = {name: each for name, each in members.items() if each}
    return spell_members(members | {"ms": ms, "size": ended.size})
