"""The needs of the flow of a sign-in: of the hub around it, of what is kept, and of the servers that it asks."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Protocol

from msgspec import Struct

from config.setting import Secret
from config.settings import HubConfig, UpstreamConfig
from hub.sign_in.authorization_url import Listening
from hub.sign_in.browser_end import BrowserEnds
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, Grant, GrantKey, OAuthClient
from upstreams.oauth.registration.trial import SignInProspect


class SignInCredential(Protocol):
    """The credential of a principal at an upstream (`upstreams.oauth.credential`)."""

    @property
    def challenge(self) -> Challenge:
        """The last one of the upstream."""
        ...

    @property
    def wanted_scope(self) -> str:
        """The scopes that the next sign-in is to ask for, since an operation needs more than there is; "": nothing
        particular."""
        ...

    def asking(self, on: bool) -> None:
        """A sign-in by a person begins, or is over."""
        ...

    def note_problem(self, text: str) -> None:
        """Nobody can sign in; the text for people says why."""
        ...


class SignInKeeper(Protocol):
    """The records of sign-ins (`upstreams.oauth.store`).

    Every method raises OAuthProblem if it cannot be read or kept.
    """

    async def find(self, upstream: str, principal: str) -> Grant | None:
        """The grant that is used."""
        ...

    async def keys(self) -> Iterable[GrantKey]:
        """Of all grants that are kept."""
        ...

    async def redirect_number(self, issuer: str) -> int:
        """The number of the redirect URI of an authorization server that does not say who it is: 1 for the first."""
        ...

    async def only_for(self, uri: str, issuer: str) -> str:
        """The authorization server that alone answers at a configured redirect URI, of those that do not say who they
        are: `issuer`, unless there is one already."""
        ...

    async def port(self) -> int | None:
        """The port at which the hub listened for browsers when it had no listener of its own."""
        ...

    async def keep_port(self, port: int) -> None: ...

    async def is_agreed(self, upstream: str, principal: str, issuer: str) -> bool:
        """True if a person has agreed to this authorization server, though something about it is unusual."""
        ...

    async def agree(self, upstream: str, principal: str, issuer: str) -> None: ...


class Code(Struct, frozen=True, kw_only=True):
    """An authorization code, and everything that was said when it was asked for."""

    key: GrantKey
    discovery: Discovery
    client: OAuthClient
    code: Secret
    verifier: Secret
    redirect_uri: str
    nonce: str
    """That of the request, which an ID token has to have."""
    resource: str
    """As it was sent; "": it was not."""
    scope: str


class Servers(Protocol):
    """The authorization servers and what they publish (`servers.RealServers`).

    Every method raises OAuthProblem if a person has to do something, OAuthUnavailable if one cannot be asked now.
    """

    async def discover(
        self, upstream: str, config: UpstreamConfig, challenge: Challenge, preferred: Collection[str]
    ) -> Discovery: ...

    async def client(
        self,
        upstream: str,
        config: UpstreamConfig,
        discovery: Discovery,
        redirect_uri: str,
        *,
        anew: bool = False,
        other_method: bool = False,
        with_scope: bool = False,
    ) -> OAuthClient: ...

    async def redeem(self, config: UpstreamConfig, code: Code) -> Grant:
        """The grant that a code is good for, which is not kept yet."""
        ...

    async def trial(
        self,
        upstream: str,
        config: UpstreamConfig,
        challenge: Challenge,
        redirect_of: Callable[[AuthorizationServer], Awaitable[str]],
    ) -> SignInProspect:
        """The prospects of a sign-in; nothing is registered."""
        ...

    def document(self, base_url: str) -> dict[str, Any]:
        """The client metadata document of a hub at this origin."""
        ...


class Surroundings(Struct, frozen=True, kw_only=True):
    """Everything around the flow."""

    config: Callable[[], HubConfig]
    upstream: Callable[[str], UpstreamConfig | None]
    """The settings of an upstream, references filled in; None: there is no such upstream."""
    listening: Callable[[], Listening | None]
    """The hub's HTTP listener; None: it has none."""
    credential: Callable[[str, UpstreamConfig, str], SignInCredential | None]
    """The credential of a principal at an upstream; None: none is used there."""
    keeper: Callable[[], SignInKeeper]
    keep: Callable[[Grant], Awaitable[Grant]]
    """Keeps the grant of a sign-in, durably, and has it used from then on. Raises OAuthProblem, OAuthUnavailable."""
    servers: Servers
    ends: BrowserEnds
    signed_in: Callable[[str], None]
    """Called with the upstream when a grant for it is there: it is started, and waiting calls go on."""
    completed: Callable[[str, str], None] = lambda upstream, visit: None
    """Called with the upstream and the id of a visit that hosts were sent to, when that is over."""
    spawn: Callable[[Callable[[], Awaitable[None]]], None]
    """Runs something beside, until the hub ends."""
    wall: Callable[[], float]
    """Wall time, for people."""
