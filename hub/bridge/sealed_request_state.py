"""Request states: sealed facts that a modern host carries from one round of a request to the next.

A state is sealed, so that hosts can neither make nor change one, and bound to the principal and the request. `parking`
enforces one-time use.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from hub.link.call_interface import Interim
from hub.link.log_context import spell_ref
from hub.link.sealing import InvalidSeal, Sealer
from hub.linux.boot_clock import NO_BOOT_CLOCK, BootClock
from hub.wire import jsonrpc
from hub.wire.jsonrpc import EMPTY, Failure, RemoteProtocolError, Request, raw
from hub.wire.mcp import HUB_INFO, INPUT_REQUIRED, INVALID_PARAMS, RESULT_TYPE, SERVER_INFO_KEY, UPSTREAM_LOST
from hub.wire.total_item_limit import MAX_ITEMS, SMALL_BYTES, has_too_many_items

PURPOSE: Final = "rs"
VERSION: Final = 1
MAX_READ_BYTES: Final = 64 << 10
"""Size of a request up to which it is compared by its meaning, which takes 20 ms at most."""
ASK: Final = "ask"
"""Mode of the states by which a person is asked, before a call gets as far as any other state (`hub.rules`)."""
_NONE: Final = Raw(b"")
_MARK: Final = b"as written\0"

INVALID: Final = "request_state_invalid"
EXPIRED: Final = "request_state_expired"
USED: Final = "request_state_used"
LOST: Final = UPSTREAM_LOST
ELSEWHERE: Final = "elsewhere"
_WORDS: Final[Mapping[str, str]] = {
    INVALID: "This requestState does not belong to this request; call again without it",
    EXPIRED: "The answers came too late, and the call has been ended; call again without requestState",
    USED: "This requestState was used already; call again without it",
    LOST: "The upstream or the hub ended while the call waited for the answers; whether it acted is unknown. Call again"
    " without requestState if that does no harm",
    ELSEWHERE: "The call waits for these answers at another hub, which has to be asked; here nothing was done",
}


class BadState(Exception):
    """A request cannot resume from its state. `reason` is one of the words above."""

    def __init__(self, reason: str) -> None:
        super().__init__(_WORDS[reason])
        self.reason = reason
        self.failure = Failure(INVALID_PARAMS, _WORDS[reason], raw({"hub": "request_state", "reason": reason}))
        """The error that the host gets."""


class FirstRound(NamedTuple):
    """The first request of those by which one operation is carried out."""

    ref: str
    """Its number, as records spell it; "": it is not known."""
    at: float
    """The time of day when it came."""
    agreed: str = ""
    """A digest of the rules by which a person was asked who has agreed; "": nobody has."""


NO_ROUND: Final = FirstRound("", 0.0)


class Binding(Struct, frozen=True):
    """Binding of a state: one request of one principal, to one upstream."""

    upstream: str
    principal: str
    method: str
    digest: str
    first: FirstRound = NO_ROUND
    """What it belongs to; it binds nothing."""


class RequestState(Struct, frozen=True):
    """An opened state. `mode` names the module that made it, `members` is its content."""

    mode: str
    binding: Binding
    members: dict[str, Raw]
    run: str = ""
    """Run of the hub that keeps the rest in memory; "": there is no rest."""
    expired: bool = False
    """True if the state has expired by the clock; such states are opened only for modes in `remembered`."""


class _Sealed(Struct, frozen=True):
    """The sealed content, under short names."""

    v: int
    m: str
    u: str
    p: str
    q: str
    d: str
    x: float
    s: dict[str, Raw] = {}
    r: str = ""
    b: str = ""
    """The boot of the machine that sealed it, if known; `y` is the expiry by the clock that runs from then on."""
    y: float = 0.0
    f: tuple[str, float] = NO_ROUND[:2]
    a: str = ""


_decode = msgspec.json.Decoder(_Sealed).decode


def bind(upstream: str, principal: str, request: Request, first: FirstRound = NO_ROUND) -> Binding:
    """The binding of a state of `request`."""
    return Binding(upstream, principal, request.method, digest(request), first)


def digest(request: Request) -> str:
    """Digest of a request, independent of how the host spells its JSON.

    Numbers are compared by the value they have in JavaScript, since hosts written in it send 1.0 as 1 and
    large integers rounded. What is larger than `MAX_READ_BYTES` is compared as it is written, since reading it takes
    seconds: a program writes the same value the same way each time.
    """
    parts, size = _binding_parts(request), _size(request)
    if size > MAX_READ_BYTES:
        found = sha256(_MARK)
        for part in parts:
            found.update(b"%d:" % memoryview(part).nbytes)
            found.update(part)
        return f"{size}:{found.hexdigest()}"
    plain = json.loads(b"[%b,%b,%b]" % parts, parse_int=_number, parse_float=_number)
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _binding_parts(request: Request) -> tuple[bytes, Raw, Raw]:
    """The part of a request that binds: method, name and arguments, as spelt by the host."""
    params = request.params
    named = params.get("uri", EMPTY) if "name" not in params else params["name"]
    return jsonrpc.encode(request.method), named, params.get("arguments", EMPTY)


def _size(request: Request) -> int:
    return sum(memoryview(part).nbytes for part in _binding_parts(request))


def _may_have(found: str, request: Request) -> bool:
    """True if a request can have the digest `found`, by its size alone, which costs nothing."""
    size = _size(request)
    return found.partition(":")[0] == f"{size}" if size > MAX_READ_BYTES else ":" not in found


def _number(text: str) -> float:
    return float(text) + 0.0  # -0 is 0


@dataclass(eq=False, repr=False)
class RequestStates:
    """Seals and opens states. `wall` is the time of day in seconds: states outlive the process, as its key does.

    The time of day may be set, and be wrong for a while. So `boot`, which nobody sets, decides as long as the machine
    runs; and of modes in `remembered`, whose calls are in memory, whoever has the call does.

    `run` names the run of this hub, if there are others beside it.
    """

    sealer: Sealer
    wall: Callable[[], float]
    run: str = ""
    is_elsewhere: Callable[[str], bool] = lambda run: False
    """Tells whether a run is that of another hub that is alive, so that the rest of its states is not lost."""
    boot: BootClock = NO_BOOT_CLOCK
    remembered: Collection[str] = ()

    def seal(self, mode: str, binding: Binding, members: Mapping[str, Any], *, ttl_s: float, here: bool = False) -> str:
        """Make a state that lasts `ttl_s`. `members` may hold `Raw`; `here`: the rest is in this hub's memory."""
        sealed = _Sealed(
            VERSION,
            mode,
            binding.upstream,
            binding.principal,
            binding.method,
            binding.digest,
            self.wall() + ttl_s,
            {name: raw(value) for name, value in members.items()},
            self.run if here else "",
            self.boot.id,
            self.boot.now() + ttl_s if self.boot.id else 0.0,
            binding.first[:2],
            binding.first.agreed,
        )
        return self.sealer.seal(PURPOSE, jsonrpc.encode(sealed))

    def open(self, text: str, principal: str, request: Request, upstream: str | None = None) -> RequestState:
        """The state that `request`, which is for `upstream` if that is known, brought. What costs least is compared
        first: whoever has one state may bring it with anything. Raises BadState: `request_state_invalid`, which says
        nothing else; `request_state_expired`, to its owner only."""
        found = self._unseal(text)
        meant = VERSION, principal, request.method, upstream or found.u
        if (found.v, found.p, found.q, found.u) != meant or not _may_have(found.d, request):
            raise BadState(INVALID)
        binding = bind(found.u, principal, request, FirstRound(*found.f, found.a))
        if found.d != binding.digest:
            raise BadState(INVALID)
        knows_boot = found.b and found.b == self.boot.id
        expired = found.y < self.boot.now() if knows_boot else found.x < self.wall()
        if expired and found.m not in self.remembered:
            raise BadState(EXPIRED)
        return RequestState(found.m, binding, found.s, found.r, expired)

    def run_of(self, text: str) -> str:
        """The run in whose memory the rest of a state is; "": there is no rest, or `open` will say what is wrong."""
        try:
            return self._unseal(text).r
        except BadState:
            return ""

    def first_round(self, ref: int, ago_s: float) -> FirstRound:
        """The first round of an operation, which came so many seconds ago."""
        return FirstRound(spell_ref(ref), self.wall() - ago_s)

    def first_of(self, text: str) -> FirstRound:
        """The first round of what a state belongs to, as far as it is known."""
        try:
            return FirstRound(*self._unseal(text).f)
        except BadState:
            return NO_ROUND

    def _unseal(self, text: str) -> _Sealed:
        """Raises BadState."""
        try:
            return _decode(self.sealer.open(PURPOSE, text))
        except (InvalidSeal, msgspec.DecodeError):
            raise BadState(INVALID) from None


def input_required(requests: Mapping[str, Raw] | None, state: str) -> Interim:
    """Make the result that asks a modern host for input, by these requests, if any, and to come back with `state`."""
    asked = {} if requests is None else {"inputRequests": requests}
    meta = {SERVER_INFO_KEY: HUB_INFO}
    return Interim(raw({RESULT_TYPE: INPUT_REQUIRED, **asked, "requestState": state, "_meta": meta}))


def answers_of(request: Request, *, needed: bool = False) -> dict[str, Raw]:
    """Read the answers of a retry, by key. Raises RemoteProtocolError: -32602, they are too many to look through; or
    they are `needed`, and there are none."""
    answers = request.params.get("inputResponses", _NONE)
    if memoryview(answers).nbytes > SMALL_BYTES and has_too_many_items(answers):
        raise RemoteProtocolError(INVALID_PARAMS, f"inputResponses has more than {MAX_ITEMS} items")
    return jsonrpc.open_object(answers) if needed else jsonrpc.peek_object(answers)


def state_of(request: Request) -> str | None:
    """Read the state of a retry; None: it is a first attempt."""
    return jsonrpc.peek_str(request.params.get("requestState"))
