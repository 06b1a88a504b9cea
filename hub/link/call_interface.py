"""The seam between the two sides of the house: `async Upstream.call(operation, exchange) -> Reply`.

Its second door, `Upstream.begin`, is for what need not wait before it is sent: a function call, and later another one
with the reply, in place of a task. What it cannot take goes through the first.

Everything that belongs to a request goes down by call and comes up by return. An `Operation` is era-neutral: hop-local
metadata has been taken off, names and URIs are already the upstream's own. An `Exchange` is the host's end of it, to
which an upstream reports progress and logs, and of which it may ask.

An upstream's answer, error included, is a `Reply` value. A failure of the hub's own is a `HubError`
(`hub.link.hub_errors`).
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw, Struct, field, structs

from config.settings import OWNER as OWNER
from config.settings import UpstreamConfig
from hub.wire.jsonrpc import EMPTY, Reply, Result
from hub.wire.mcp import Era, era_of
from hub.wire.questions.askable_questions import Missing, Question
from hub.wire.upstream_snapshot import Snapshot

if TYPE_CHECKING:  # commands import this module, and do without trio
    from hub.link.elicitation_ends import FinishedElicitations


class Identity(Struct, frozen=True):
    """The caller, established by a credential and never by a claim in a message."""

    principal: str
    """The account: one per unix uid or per token."""
    host: str
    """The program of that account, for instance the `--host` label of the shim."""
    profile: str = ""
    """The profile that its token opens, and nothing else; "": its credential chooses none."""


class Rights(Struct, frozen=True):
    """What a token says of whoever shows it, beside who that is. Another token may say something else of the same."""

    issuer: str = ""
    """The name of the issuer in the configuration; "": no issuer has said anything."""
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


NO_RIGHTS: Final = Rights()


class Program(Struct, frozen=True):
    """One program of one account, however many windows, sessions and requests of it there are. Hashable."""

    identity: Identity
    name: str = ""
    """The name it gives itself, which tells apart programs of one credential and never makes two of them one."""


new_conversation: Final = count(1).__next__
"""A number for a conversation with one host, never used twice."""


class Caller(Struct, frozen=True):
    """The host of one operation: identity, revision and capabilities."""

    identity: Identity
    version: str
    capabilities: dict[str, Raw]
    """As declared in `initialize` (legacy) or in this very request (modern)."""
    log_level: str | None = None
    """The least severe log message wanted; None: none (modern), or the hub decides (legacy)."""
    conversation: int = field(default_factory=new_conversation)
    """Number that tells hosts of one identity apart: one for all requests of a session or line connection, one for each
    modern request over HTTP. Made by the hub, so that no host can take another's."""
    lasting: bool = False
    """True if the conversation goes on after this operation: a legacy session or a line connection."""
    program_name: str = ""
    """The name that the program gives itself, as `hub.wire.capabilities.program_name` reads it."""
    rights: Rights = NO_RIGHTS
    """What its token says besides."""
    transport: str = "tcp"
    """The way in which it came: `tcp` or `unix`."""
    era: Era = Era.LEGACY
    """That of `version`."""
    program: Program = Program(Identity("", ""))
    """The program that an upstream may speak of for the sake of this operation."""

    def __post_init__(self) -> None:  # once for a session, in place of several times in each call
        structs.force_setattr(self, "era", era_of(self.version))
        structs.force_setattr(self, "program", Program(self.identity, self.program_name))

    @property
    def tenant(self) -> "Tenant":
        """The owner of upstream sessions that are this caller's own: the conversation, if it lasts, else
        all requests of the identity."""
        return Tenant(self.identity, self.conversation if self.lasting else 0)


class Tenant(Struct, frozen=True):
    """One host, as far as upstream sessions are concerned. Hashable."""

    identity: Identity
    conversation: int = 0
    """0: a host that begins each request anew (modern, over HTTP)."""


class Operation(Struct, frozen=True):
    """A request to one upstream: `tools/call`, `prompts/get`, `resources/read` or `completion/complete`."""

    method: str
    params: dict[str, Raw]
    """Without `_meta`; names and URIs as the upstream knows them."""
    meta: dict[str, Raw] = {}
    """Foreign `_meta` keys only (trace context, vendor keys); each hop adds its own."""
    session: str = ""
    """The session it belongs to, while that is open (requests about tasks); "": whichever serves the caller."""
    waited_s: float = 0.0
    """Seconds for which it waited in a queue of the hub; they count toward `timeouts.call_total`."""

    def with_arguments(self, arguments: Raw) -> "Operation":
        """The same, with other arguments."""
        return structs.replace(self, params={**self.params, "arguments": arguments})


class Exchange(Protocol):
    """The host's end of one running operation. Valid until the operation returns."""

    @property
    def caller(self) -> Caller: ...

    @property
    def wants_progress(self) -> bool:
        """True if the host gave a progress token."""

    def progress(self, params: dict[str, Raw]) -> None:
        """Report progress: `params` of the upstream's notification without its token. Never blocks; may be dropped."""

    def log(self, params: dict[str, Raw]) -> None:
        """Pass on a log message that is certain to belong to this operation. Never blocks; may be dropped."""

    def note_sent(self) -> None:
        """Note that its message goes out only now, after a wait."""

    async def ask(self, question: Question) -> Reply:
        """Put an upstream's question to the host: the answer as the upstream can read it, or the refusal it gets.

        It may take as long as people take. Cancellation: withdraws the question.
        """


HearQuestion = Callable[[Question, float, Reply | None], None]
"""Gets a question that a host was asked, how long that took, and the answer; None: it was withdrawn."""


class HostEnd(Exchange, Protocol):
    """The exchange of a request of a host, as the bridge between eras sees it."""

    @property
    def hear_question(self) -> HearQuestion | None:
        """Whom to tell of questions that the host was asked; None: nobody."""

    @property
    def is_step(self) -> bool:
        """True for a step of a pipeline, whose host can be asked while it waits, whatever its era."""

    @property
    def lacking(self) -> Missing | None:
        """The capabilities that questions needed and that the host, a modern one, did not declare, as
        `requiredCapabilities` has them; None: there were none."""


Call = Callable[[Operation, Exchange], Awaitable[Reply]]
"""Carries out an operation as `Upstream.call` does."""

Done = Callable[[Reply | Exception], None]
"""Gets the outcome of an operation, once: a reply, or what `Upstream.call` would raise. It is called in a task that has
other work to do. An error that it raises is only logged."""


class RunningCall(Protocol):
    """An operation that an upstream carries out."""

    def cancel(self) -> None:
        """End it: the upstream is told, and `done` is not called. Does nothing when it is over."""


class Upstream(Protocol):
    """One configured server, to those that forward operations; `upstreams.upstream.Upstream` is one."""

    name: str
    config: UpstreamConfig

    @property
    def snapshot(self) -> Snapshot:
        """The lists that it offers, or offered last."""

    @property
    def elicitations(self) -> "FinishedElicitations":
        """Visits to pages that it said are over."""

    def admit(self, questions: Iterable[Question], asked: int = 0) -> None:
        """Count questions in a result, of a call that has `asked` for so many forms and visits before. Raises
        QuestionRefusal: it may ask no more."""

    def answered(self, method: str, reply: Reply) -> None:
        """Note what became of a question of this method that it had asked."""

    def judge(self, questions: Iterable[Question]) -> None:
        """Check questions that hosts see more than once, and that are not counted. Raises QuestionRefusal: it may never
        ask one of them."""

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """Carry out an operation.

        Raises:
            HubError: there is no answer.
        Cancellation: passes to the upstream, which is told.
        """

    def begin(self, operation: Operation, exchange: Exchange, done: Done) -> RunningCall | None:
        """Carry out an operation without waiting; None: that cannot be, nothing was sent, and `call` is to be used.

        `done` is never called before this returns, and not at all if this returns None or raises. If it gets an
        `UpstreamUnavailable`, nothing was sent after all, and `call` may find another way.

        Raises:
            HubError: there will be no answer, and `call` would raise the same.
        """

    def version_for(self, caller: Caller) -> str:
        """The revision that calls of `caller` are likely made in; "" while nothing is known."""

    def expect(self, session: str, caller: Caller, for_s: float) -> None:
        """Keep `session` open for so many seconds, though no call may use it; "": the session that serves `caller`."""

    def has_lost(self, session: str) -> bool:
        """True if `session` is over, and with it every task that was begun in it."""


NOTHING = Result(EMPTY)
"""The empty result."""
NO_ARGUMENTS: Final = Raw(b"")
"""In place of arguments that an operation lacks."""


class Interim(Result, frozen=True):
    """A result of the hub's own for a modern host, whole as it is, that does not end the matter: it asks for input, or
    names a task."""
