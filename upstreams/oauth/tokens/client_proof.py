"""The parts that the hub adds to a request to prove its client id (RFC 6749 2.3, RFC 7523 2.2)."""

from base64 import b64encode
from typing import Final
from urllib.parse import quote_plus

from msgspec import Struct
from msgspec.structs import replace

from config.oauth_settings import UpstreamOAuth
from upstreams.oauth.model import OAuthClient, OAuthProblem, same_issuer

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class Proof(Struct, frozen=True):
    """Fields and headers of a request that say who asks."""

    fields: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<Proof {[name for name, _ in (*self.fields, *self.headers)]}>"


def proof_of(client: OAuthClient, settings: UpstreamOAuth, *, audience: str, now: float) -> Proof:
    """The proof of `client`. `audience` is whom a signed statement is for; `now` wall time.

    Raises:
        OAuthProblem: the secret or the key is missing, or the key cannot be used.
    """
    method, id = client.token_auth, ("client_id", client.client_id)
    if method == "none":
        return Proof((id,))
    if method == "private_key_jwt":
        from upstreams.oauth.tokens.assertion import client_assertion

        signed = client_assertion(client.client_id, audience, settings, now=now)
        return Proof((("client_assertion_type", ASSERTION_TYPE), ("client_assertion", signed)))
    if client.secret is None:
        raise OAuthProblem(f"there is no client_secret for {method} at {client.issuer}")
    if method == "client_secret_post":
        return Proof((id, ("client_secret", client.secret.reveal())))
    if method == "client_secret_basic":
        return Proof((id,), (("authorization", basic(client.client_id, client.secret.reveal())),))
    raise OAuthProblem(f"hubd cannot prove its client_id at {client.issuer}: it knows no token_auth {method[:40]!r}")


def basic(client_id: str, secret: str) -> str:
    """The value of `Authorization`: both parts in form encoding, before they are joined (RFC 6749 2.3.1)."""
    joined = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {b64encode(joined.encode()).decode()}"


def with_settings(client: OAuthClient, settings: UpstreamOAuth) -> OAuthClient:
    """`client` with the secret that the operator has configured for it by now, if it is the operator's. A secret is for
    the issuer that is configured beside it, and is shown to no other one."""
    if client.kind != "configured" or client.client_id != settings.client_id:
        return client
    if settings.client_secret is not None and not same_issuer(settings.issuer, client.issuer):
        return client
    method = client.token_auth if settings.token_auth == "auto" else settings.token_auth
    return replace(client, secret=settings.client_secret, token_auth=method)
