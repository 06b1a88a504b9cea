"""Parts that all credentials of one hub share: clocks, the store, requests, and a place for tasks that outlive who
waits. Loaded by every hub that has an upstream with a URL."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from config.tables import IdentityProvider
from upstreams.oauth.model import Grant

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher
    from upstreams.oauth.store.grant_store import GrantStore


class Shared(Struct, frozen=True, kw_only=True):
    """The parts that all credentials of one hub share."""

    store: "Callable[[], GrantStore]"
    """Made at the first call, which may block."""
    fetch: "Fetcher"
    wall: Callable[[], float]
    """The time of day."""
    clock: Callable[[], float]
    """Seconds on a clock that nobody sets and that counts while the machine sleeps."""
    spawn: Callable[[str, Callable[[], Awaitable[None]]], None]
    """Runs a task that whoever waits for it does not own; the text names it in the log."""
    idp: Callable[[], IdentityProvider]
    """The company's identity provider, as it is configured now."""
    idp_grant: Callable[[str], Awaitable[Grant]]
    """The grant of a principal's sign-in there, with an ID token that lasts. Raises OAuthProblem, OAuthUnavailable."""
