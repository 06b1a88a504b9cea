"""The parts that all credentials of one hub share: clocks, the store, requests, and a place for tasks that outlive who
waits."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from config.oauth_settings import IdentityProvider, UpstreamOAuth
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, OAuthClient

if TYPE_CHECKING:
    from upstreams.fetch.model import Allowed
    from upstreams.oauth.store.grant_store import GrantStore
    from upstreams.oauth.tokens.endpoint import Poster

Discover = Callable[[str, UpstreamOAuth, Challenge, Collection[str]], Awaitable[Discovery]]
"""Takes an upstream's URL, its settings, a challenge and preferred issuers; asks which authorization server there is.
Raises OAuthProblem, OAuthUnavailable."""


class Finding(Struct, frozen=True, kw_only=True):
    """The ways to find out about sign-ins: `discovery` and `registration`, which are imported at the first use."""

    discover: Discover
    server: Callable[[UpstreamOAuth], Awaitable[AuthorizationServer]]
    """Asks what the configured issuer says of itself. Raises OAuthProblem, OAuthUnavailable."""
    parse: Callable[[Sequence[str]], Challenge]
    """Reads the values of `WWW-Authenticate`."""
    allowed: "Callable[[str, UpstreamOAuth], Allowed]"
    """Whom requests about an upstream with this URL may reach."""
    client: Callable[[AuthorizationServer, UpstreamOAuth, str], OAuthClient]
    """The client that the operator configured for an upstream, the last argument. Raises OAuthProblem."""


class Shared(Struct, frozen=True, kw_only=True):
    """The parts that all credentials of one hub share."""

    store: "Callable[[], GrantStore]"
    """Made at the first call, which may block."""
    fetch: "Poster"
    wall: Callable[[], float]
    """The time of day."""
    clock: Callable[[], float]
    """Seconds on a clock that nobody sets and that counts while the machine sleeps."""
    finding: Finding
    spawn: Callable[[str, Callable[[], Awaitable[None]]], None]
    """Runs a task that whoever waits for it does not own; the text names it in the log."""
    idp: Callable[[], IdentityProvider]
    """The company's identity provider, as it is configured now."""
