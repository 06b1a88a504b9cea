"""Records of the audit log: what is held of a call in the loop, and its members as JSON. Pure.

No record has an argument, a result or the query of a URI in it, unless `arguments = "full"` of a server says so. A
digest of arguments has a key of this installation, so that short values cannot be guessed.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from hub.bridge.request_state import NO_ROUND, FirstRound, state_of
from hub.calls.chain import Intent, Outcome
from hub.link.call_interface import Interim
from hub.link.hub_errors import Executed, HubError
from hub.link.sync_primitives import Promise
from hub.rules.audit.lines import Draft, Stamps, draft
from hub.rules.fingerprints import hash_listed
from hub.rules.policy.verdicts import Verdict
from hub.wire.jsonrpc import Failure, Result, encode, peek_object, peek_str
from hub.wire.large_messages import excerpt
from hub.wire.mcp import RESULT_TYPE, TASK, URL_ELICITATION_REQUIRED, Snapshot

LARGE_BYTES: Final = 64 << 10
"""Arguments up to this are held until a thread digests them, and written where they are wanted; a result up to this is
simply searched."""
DIGEST_BYTES: Final = 16
DEFINITION_CHARS: Final = 16
MAX_CHARS: Final = 200
"""Characters of a name, a label, a URI or another text."""
MAX_FACTS: Final = 4_096
"""Tools, by host, that are described."""
_USER: Final = re.compile(r"(?<=://)[^/@]*@")
ERROR: Final = b'"isError"'
"""In every result that says it is an error, and in some others."""
NO_ARGUMENTS: Final = Raw(b"")
CLOCK: Final = perf_counter
"""The clock of all records."""
BEGIN: Final = "begin"
END: Final = "end"
NOTE: Final = "note"


class Ending(NamedTuple):
    """The end of a call."""

    out: str
    """`ok`, `error`, `asked`, `cancelled`, `unknown` or `interrupted`."""
    kind: str = ""
    """What went wrong: `tool_error`, the code of an error, or the kind of the hub's own."""
    executed: str = ""
    """Whether the server acted on a call that failed, where the hub can tell."""
    size: int = 0
    """Bytes of the result."""


def sum_up(outcome: Outcome, *, is_stopping: bool = False) -> Ending:
    """The end of a call with this outcome. `is_stopping`: the hub is, and cuts off what runs."""
    if isinstance(outcome, Result):
        size = memoryview(outcome.value).nbytes
        if isinstance(outcome, Interim):
            is_task = peek_str(peek_object(outcome.value).get(RESULT_TYPE)) == TASK
            return Ending("ok", TASK, size=size) if is_task else Ending("asked", size=size)
        return Ending("error", "tool_error", size=size) if _tells_error(outcome.value) else Ending("ok", size=size)
    if isinstance(outcome, HubError):
        is_unknown = outcome.executed is Executed.UNKNOWN
        return Ending("unknown" if is_unknown else "error", outcome.kind, outcome.executed.value)
    if isinstance(outcome, Failure):
        return Ending("asked" if outcome.code == URL_ELICITATION_REQUIRED else "error", str(outcome.code))
    if outcome is None:
        return Ending("interrupted" if is_stopping else "cancelled")
    return Ending("error", "internal")


class _MayBeError(msgspec.Struct):
    isError: bool = False


_decode_error: Final = msgspec.json.Decoder(_MayBeError).decode


def _tells_error(value: Raw) -> bool:
    found = excerpt(value)
    if found.find(ERROR) < 0:
        return False
    try:
        return _decode_error(value).isError
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


Digested = tuple[bytes, int]
"""The digest of arguments, and their bytes."""
Begin = tuple[Literal["begin"], Intent, Verdict, Snapshot, Digested | None, float, Promise[bool] | None]
"""A call begins by this verdict, at an upstream that offers this, at this time of `CLOCK`, once nobody has to approve
it any more; who waits until that is written."""
End = tuple[Literal["end"], Intent, Ending | int, float, Verdict | None, Digested | None, None]
"""A call has ended so, or well with a result of so many bytes, at this time of `CLOCK`. With a verdict it has no
`begin`."""
Note = tuple[Literal["note"], str, dict[str, Any], float, Promise[bool] | None]
"""Somebody has decided something: its kind and members."""


class Describe:
    """Describes calls as members of records, in JSON without braces. `key` is that of digests; `mask` takes secrets out
    of texts. Used by one thread at a time."""

    def __init__(self, key: bytes, mask: Callable[[str], str] = str) -> None:
        self.find_first: Callable[[str], FirstRound] = lambda state: NO_ROUND
        """Finds the first round in a state that a host has brought."""
        self.stamps = Stamps()
        self._hash = blake2b(key=key, digest_size=DIGEST_BYTES)
        self._mask = mask
        self.released = 0
        """Bytes of arguments of the records that were described."""
        self._facts: dict[tuple[object, ...], tuple[Snapshot, bytes]] = {}
        """What is the same for all calls of one tool by one host, as long as its upstream offers the same."""
        self._begun: dict[int, float] = {}
        """When calls began whose `begin` is there, by their refs."""
        self._generation = 1
        """The configuration in effect is the how manieth."""

    def draft(self, record: Begin | End | Note, offset: float) -> Draft:
        """The draft of a record. `offset`: from times of `CLOCK` to those of day."""
        if record[0] == NOTE:
            _, kind, members, at, _ = record
            return self._draft_note(self.stamps.at(at + offset), kind, members)
        intent = record[1]
        ref = intent.ref & 0xFFFFFFFF
        if record[0] == BEGIN:
            _, _, verdict, snapshot, digested, at, waiter = record
            self._begun[ref] = at
            text = self._beginning(intent, verdict, snapshot, digested)
            return self.stamps.at(at + offset), b'"k":"begin","ref":"%08x",%b' % (ref, text), waiter is not None
        _, _, ending, at, its_verdict, digested, _ = record
        began = self._begun.pop(ref, None)
        text = describe_ending(ending, at - (intent.began if began is None else began))
        if began is None:
            alone = self._beginning(intent, its_verdict, intent.target.upstream.snapshot, digested)
            text = b"%b,%b" % (alone.replace(b',"size":', b',"sent":', 1), text)
        return self.stamps.at(at + offset), b'"k":"end","ref":"%08x",%b' % (ref, text), False

    def _draft_note(self, t: bytes, kind: str, members: Mapping[str, Any]) -> Draft:
        if kind == "config":
            self._generation += 1
            self._facts.clear()
            members = {"gen": self._generation, **members}
        if isinstance(ref := members.get("ref"), int):
            members = {**members, "ref": f"{ref & 0xFFFFFFFF:08x}"}
        if isinstance(name := members.get("name"), str) and ":" in name:  # no name of a tool has one
            members = {**members, "name": strip_uri(name)}
        texts = {name: self._mask(each)[:MAX_CHARS] for name, each in members.items() if isinstance(each, str)}
        try:
            return draft(t, {"k": kind, **members, **texts})
        except (TypeError, ValueError) as error:
            return draft(t, {"k": kind, "unreadable": str(error)[:MAX_CHARS]})

    def digest(self, data: Raw | bytes) -> Digested:
        """The digest of arguments, or of a URI. May be called in any thread."""
        found = self._hash.copy()
        found.update(data)
        return found.hexdigest().encode(), memoryview(data).nbytes

    def _beginning(
        self, intent: Intent, verdict: Verdict | None, snapshot: Snapshot, digested: Digested | None
    ) -> bytes:
        """What is called, by whom, and by which rule."""
        target, who, rule = intent.target, intent.host.caller.identity, None if verdict is None else verdict.rule
        key = target.exposed, target.upstream.name, who.host, who.principal, intent.request.method, rule
        facts = self._facts.get(key)
        if facts is None or facts[0] is not snapshot:
            if facts is not None or len(self._facts) >= MAX_FACTS:  # nor are lists kept that no upstream has any more
                self._facts.clear()
            facts = self._facts[key] = snapshot, self._describe(intent, verdict, snapshot)
        args, size = digested or self.digest(arguments_of(intent))
        self.released += 0 if digested else size
        text = b'%b,"args":"k:%b","size":%d' % (facts[1], args, size)
        first = intent.first
        if not first.ref and "requestState" in intent.request.params:
            state = state_of(intent.request)
            first = NO_ROUND if state is None else self.find_first(state)
        if first.ref:
            text += b',"first":"%b","since":"%b"' % (first.ref.encode(), self.stamps.at(first.at))
        if digested is None and target.kind is not None and target.upstream.config.arguments == "full":
            text += b',"arguments":' + encode(self._mask_arguments(arguments_of(intent)))
        return text

    def _describe(self, intent: Intent, verdict: Verdict | None, snapshot: Snapshot) -> bytes:
        target, identity, kind = intent.target, intent.host.caller.identity, intent.target.kind
        members: dict[str, object] = {"gen": self._generation}
        members |= {"p": identity.principal[:MAX_CHARS], "host": identity.host[:MAX_CHARS]}
        members |= {"up": target.upstream.name, "m": intent.request.method}
        members["name"] = (target.exposed if kind is not None else strip_uri(target.exposed))[:MAX_CHARS]
        if kind is not None:
            found = hash_listed(snapshot, kind, target.route.original, target.upstream.config.pin_ignore)
            members["def"] = found[:DEFINITION_CHARS]
        if verdict is not None:
            members |= {"by": verdict.effect.value, "rule": verdict.rule[:MAX_CHARS]}
        return encode(members)[1:-1]

    def _mask_arguments(self, data: Raw | bytes) -> object:
        """Arguments as JSON without the secrets of the configuration; None: they are no JSON, or there are none."""
        try:
            value: object = msgspec.json.decode(self._mask(bytes(data).decode()))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return value


def arguments_of(intent: Intent) -> Raw | bytes:
    """The arguments as the upstream gets them; of a read its URI."""
    if intent.target.kind is None:
        return intent.target.route.original.encode(errors="replace")
    return intent.operation.params.get("arguments", NO_ARGUMENTS)


def describe_ending(found: Ending | int, took_s: float) -> bytes:
    """How a call ended, as members in JSON without braces."""
    if isinstance(found, int):
        return b'"out":"ok","ms":%d,"size":%d' % (1000 * took_s, found)
    members: dict[str, object] = {"out": found.out, "kind": found.kind, "executed": found.executed}
    members = {name: each for name, each in members.items() if each}
    return encode(members | {"ms": int(1000 * took_s), "size": found.size})[1:-1]


def strip_uri(uri: str) -> str:
    """A URI without its query, its fragment, and who it names as its user."""
    return _USER.sub("", re.split(r"[?#]", uri, maxsplit=1)[0])
