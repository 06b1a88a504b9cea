"""The contract of what keeps client ids, as registration needs it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from upstreams.oauth.model import OAuthClient


class ClientStore(Protocol):
    """Client ids of the hub, kept by (issuer, redirect URI, upstream): a consent given for one upstream must not let
    another one in silently.

    The redirect URI of the key is the one that was asked for; that of the client may differ from it (`localhost` in
    place of `127.0.0.1`). Without issuer and redirect URI, both "", there is for each upstream the configured client id
    and the issuer at which it was first used; without redirect URI alone, the method by which it is proved there.
    """

    def find(self, issuer: str, redirect_uri: str, upstream: str) -> OAuthClient | None: ...

    def put(self, issuer: str, redirect_uri: str, upstream: str, client: OAuthClient) -> None:
        """Keep a client, in place of one that is there; durable when it returns."""
        ...

    def forget(self, issuer: str, redirect_uri: str, upstream: str) -> None: ...

    def turn(self, issuer: str, redirect_uri: str, upstream: str) -> AbstractAsyncContextManager[object]:
        """Held while a client is looked for and registered: one at a time for each key."""
        ...
