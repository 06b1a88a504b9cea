"""Session: the contract of a session with an upstream, whatever its transport.

`transports.choose_transport` makes sessions: it calls `started` with the session when the handshake is complete, and
goes on until the connection ends. A session that ended is never opened again; the runner or `session_opener` starts
a new one. Nobody above writes for a transport or an era: `run_session` chooses the transport,
`transports.request_params_for_era` writes for the era.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Raw, Struct

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER, Done, Exchange, Operation, Program, RunningCall
from hub.link.hub_errors import UpstreamProtocolError
from hub.link.memory_budget import Budget
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import EMPTY, Failure, Notification, Reply, detach, peek_object
from hub.wire.mcp import Era, Kind
from hub.wire.questions.askable_questions import Question
from upstreams.status_facts import SandboxFacts

OWN_CAPABILITIES: Final[dict[str, Raw]] = {}
"""Capabilities of the hub itself, with no host behind it."""


class CallTimeouts(Struct, frozen=True):
    """Time limits of one call, in seconds."""

    idle_s: float
    """Without an answer, progress or another message for the call."""
    total_s: float
    """In all, whatever is reported."""


class StatusError(UpstreamProtocolError):
    """An answer over HTTP with a status that is none of MCP's. The body is not shown: it may hold anything."""

    def __init__(self, message: str, *, upstream: str, status: int, failure: Failure | None = None) -> None:
        super().__init__(message, upstream=upstream)
        self.status = status
        self.failure = failure
        """The JSON-RPC error in the body, if there was one."""


RenewedHeaders = Callable[[Mapping[str, str]], Awaitable[Mapping[str, str] | None]]
"""Takes the headers that were refused, returns those to send in their place; None: there are none to try."""


class Credential(Protocol):
    """The credential that a session shows its server to be let in, beside the configured headers: asked for each
    request."""

    @property
    def authorization(self) -> str:
        """The value of `Authorization` as it is now; "": there is none, and the server may let the hub in without."""

    @property
    def due(self) -> float:
        """The time, of trio's clock, from which `renew` is to be awaited before a request; infinity: never."""

    async def renew(self) -> None:
        """Get another `authorization` if that can be done without a person. Returns at once if it is not `due`. Raises
        UpstreamUnauthorized: there is none any more, and the server would refuse the hub; HubError: the authorization
        server cannot be asked now. Cancellation: the renewal goes on for others who wait."""

    async def replace_refused(self, shown: str, challenges: Sequence[str]) -> bool:
        """The server has refused (401) a request that showed `shown`; `challenges` are the values of its
        `WWW-Authenticate` fields. True: the request is to be sent once more with `authorization` as it is now. Raises
        UpstreamUnauthorized, HubError: as `renew`."""

    async def widen_scope(self, shown: str, challenges: Sequence[str], operation: str) -> bool:
        """The server has refused (403, `insufficient_scope`) an `operation`, a tool's name for instance. True: another
        `authorization` with the scopes that it wants is there, and the request is to be sent once more. Raises
        UpstreamUnauthorized: a person has to agree first, or the scopes are not to be had."""


class CredentialSource(Protocol):
    """The credentials that a hub shows its upstreams."""

    async def credential(self, name: str, config: UpstreamConfig, principal: str) -> Credential | None:
        """The credential that sessions of `principal` show an upstream; None: the configured headers are all there
        is."""

    async def lister(self, name: str) -> str:
        """The principal as whom the lists of an upstream are read that everybody signs in at and sees the same of: the
        owner of the hub, or whoever signed in first."""


class NoCredentials:
    """The `Credentials` of a hub that signs in nowhere."""

    async def credential(self, name: str, config: UpstreamConfig, principal: str) -> None:
        """Nothing."""

    async def lister(self, name: str) -> str:
        """The owner."""
        return OWNER


NO_CREDENTIALS: Final = NoCredentials()


class SessionWatch(Protocol):
    """Told of the sessions and questions of upstreams, by their names. No method blocks or raises."""

    def opened(self, upstream: str, transport: str) -> None:
        """A session is open, over `pipe` or `tcp`."""

    def not_opened(self, upstream: str) -> None:
        """A session could not be opened."""

    def ended(self, upstream: str, transport: str, cause: str, length_s: float) -> None:
        """An open session is over. `cause`: `exit` of its process, `lost`, or closed by the hub: `idle` or
        `stopped`."""

    def answered(self, upstream: str, method: str, outcome: str) -> None:
        """A question is over: `answered`, `declined`, `refused` by the hub or its host, or `expired`."""


class NoWatch:
    """A `SessionWatch` that wants to know nothing."""

    def opened(self, upstream: str, transport: str) -> None: ...

    def not_opened(self, upstream: str) -> None: ...

    def ended(self, upstream: str, transport: str, cause: str, length_s: float) -> None: ...

    def answered(self, upstream: str, method: str, outcome: str) -> None: ...


NO_WATCH: Final = NoWatch()


class SessionTerms(Struct, frozen=True):
    """Terms of a session: what it declares, whom it serves, how it is kept alive."""

    capabilities: dict[str, Raw] = OWN_CAPABILITIES
    """Declared in `initialize`; to a modern upstream each request declares its own."""
    exclusive: bool = False
    """One host has the session for itself: questions of the upstream go to that host."""
    client_features: str = "auto"
    absorbs_tasks: bool = True
    tells_roots: bool = True
    """Declared in requests to a modern upstream: `client_features` "none": nothing that a host can be asked;
    `absorbs_tasks`: that results may come later; `tells_roots`: the roots of hosts."""
    roots: tuple[str, ...] | None = None
    """URIs that answer `roots/list`; None: the roots of the host do."""
    extensions: Mapping[str, Raw] = OWN_CAPABILITIES
    """Declared in each request to a modern upstream beside those of hosts; `capabilities` has them, too."""
    ping_s: float = 60.0
    """Seconds of silence after which a legacy session is pinged; 0: never."""
    renewed_headers: RenewedHeaders | None = None
    """Gives the headers to send once more with what the server refused (401); None: they never change."""
    credential: Credential | None = None
    """Shown with each request to the URL; None: the configured headers are all there is."""
    mask: Callable[[str], str] = str
    """Takes the secrets out of what the server says."""
    mask_data: Callable[[Raw], Raw] = detach
    """The same for a value of JSON, of what it tells hosts of its work."""


COMMON: Final = SessionTerms()
"""The terms of a session that no host owns."""


class Exit(Struct, frozen=True):
    """The end of a process."""

    pid: int
    how: str
    """As a clause: `exited with status 1`."""
    code: int | None
    """The exit status; None: the process was killed."""
    signal: str | None
    by_itself: bool
    """The hub had not told it to end."""
    said: tuple[str, ...]
    """The last lines of its stderr."""


class UpstreamEvents(Protocol):
    """Events of an upstream that its sessions report. No method blocks or raises."""

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """The upstream says that its lists of these kinds changed."""

    def log(self, params: dict[str, Raw]) -> None:
        """A `notifications/message` that cannot be attributed to one host: for the hub's own log."""

    def said(self, line: str, pid: int) -> bool:
        """The process wrote a line to stderr, which is without secrets and control characters. True: the process
        before it ended after saying the same."""

    def exited(self, exit: Exit) -> None:
        """The process has ended."""

    def sandboxed(self, facts: SandboxFacts) -> None:
        """The process begins in this sandbox, or ended and may have missed something in it."""

    def note(self, text: str) -> None:
        """A note about a session, for `hubd logs`."""

    def asked(self, method: str) -> None:
        """The upstream asked a question: it is interactive from now on. Said once a session of each method."""

    def admit(self, question: Question, asked: int) -> None:
        """Count a question of a call that has `asked` for so many forms and visits before. Raises QuestionRefusal, as
        the only method: the upstream may ask no more."""

    def answered(self, method: str, reply: Reply) -> None:
        """A question of this method was answered, or refused."""

    def roots_withheld(self) -> None:
        """A question for roots was refused because this session has none, whatever its hosts have."""

    def unattributed(self, method: str) -> None:
        """A question was refused because nobody can tell which host it is for."""

    def elicited(self, id: str) -> None:
        """The elicitation at a URL with this `elicitationId` is done."""

    def ended(self) -> None:
        """The session carries no more calls, though `run` may still clean up. Said at once, or not at all."""


class SessionEvents(UpstreamEvents, Protocol):
    """All events of one session that belong to no call."""

    def updated(self, uri: str) -> None:
        """The resource `uri` changed; it may be a part of one that is subscribed to."""

    def forgotten(self) -> None:
        """The upstream may have forgotten subscriptions, or said things that nobody heard."""

    def hears(self, on: bool) -> None:
        """True if the upstream can say anything unasked now. Sessions that always can do not report this."""

    def at_work(self) -> float:
        """The package runner that is to start the upstream was at work just now; the time until which it may go on."""


class SessionSetup(Struct, frozen=True):
    """What a session is opened with."""

    config: UpstreamConfig
    name: str
    events: SessionEvents
    memory: Memory
    terms: SessionTerms
    budget: Budget
    """Counts what it queues and reads."""
    environ: Mapping[str, str]
    """The variables of which a process gets its part; a server behind a URL is reached through the proxy they name."""


class Session(Protocol):
    """One live conversation with an upstream."""

    era: Era
    facts: ServerFacts
    """The server information of the upstream; `version` is the revision in use."""
    transport: str
    """For status: `stdio`, `http`, `sse` or `ws`."""
    pid: int | None
    """The process id, if the upstream is a child process."""

    @property
    def is_pinged(self) -> bool:
        """True if the session is pinged: not in the modern era, nor if the configuration says so."""

    @property
    def silent_s(self) -> float | None:
        """Seconds since the first unanswered ping; None: there is none, or the upstream was heard since."""

    async def call(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts) -> Reply:
        """Carry out a host's operation. Progress and attributable logs go to `exchange` meanwhile. Raises
        DeadlineExceeded, UpstreamLost, UpstreamProtocolError, Overloaded, UpstreamUnauthorized: as their names say.
        Cancellation, and a deadline: the upstream is told."""

    def begin(self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, done: Done) -> RunningCall | None:
        """Send a host's operation now, as `Upstream.begin`; None: not without waiting, and nothing was sent. Raises
        Overloaded, UpstreamUnavailable, UpstreamLost: as `call`."""

    async def request(self, method: str, params: dict[str, Raw]) -> Reply:
        """Ask something for the hub itself. Deadlines are the caller's. Raises HubError: as `call`."""

    def speak_of(self, program: Program) -> None:
        """Note that the upstream is told something on behalf of this program apart from its calls: for a while,
        what the upstream says may be about that. `attribution.SEVERAL`: on behalf of several."""

    async def welcome(self, exchange: Exchange) -> None:
        """Let the host that owns the session answer what the upstream asks as soon as it is open.

        To be called once, with the exchange of the operation that the session was opened for, before that is sent.
        Gives questions a moment to come, and waits for their answers. Does nothing on a session that hosts share.

        Cancellation: withdraws the questions.
        """

    def roots_changed(self) -> None:
        """Tell the upstream that the roots of the host have changed, if that was promised."""

    async def listen(self, params: dict[str, Raw], hear: Callable[[Notification], None]) -> Reply:
        """Hold a `subscriptions/listen` until the upstream ends it; `hear` gets what belongs to it (modern ones only).
        Raises HubError: as `call`. Cancellation: ends it."""


def capability(facts: ServerFacts, name: str, member: str) -> bool:
    """True if the upstream declares `member`, such as `listChanged`, as true in its capability `name`."""
    return peek_object(facts.capabilities.get(name, EMPTY)).get(member) == Raw(b"true")
