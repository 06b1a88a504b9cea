"""The facts about signing in at an upstream, those that are found out and those that are kept. Pure.

    Discovery = ProtectedResource (what the upstream says of itself) + AuthorizationServer (what that one says)
    OAuthClient   the hub as it is known to one authorization server
    Grant         the tokens of one sign-in, and all that is needed to renew them
    OAuthAccount  a principal at an upstream, to whom such a grant belongs

Texts that came from a peer were checked by whoever made the struct: URLs are sound, numbers are in bounds.
"""

from typing import Final

from msgspec import Struct

from config.security_settings import IdentityProvider, UpstreamOAuth
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from upstreams.fetch.terms_and_answers import Allowed


class OAuthProblem(Exception):
    """The reason why there is no sign-in or no token: one sentence for a person, who has to do something; without
    secrets.

    `code`: the `error` of the answer (RFC 6749 5.2, RFC 7591 3.2.2), "" if it is not one.
    """

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class NoSignIn(OAuthProblem):
    """The upstream wants a token, and nobody can sign in for one."""


class OAuthUnavailable(Exception):
    """A server of the sign-in cannot be asked now; trying again later may help. `sent`: it may have acted."""

    def __init__(self, text: str, *, retry_after_s: float | None = None, sent: bool = False) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        self.sent = sent


class Challenge(Struct, frozen=True):
    """The `Bearer` challenge of a refusal (RFC 6750 3, RFC 9728 5.1); all empty: there was none that can be read."""

    resource_metadata: str = ""
    scope: str = ""
    error: str = ""


class ProtectedResource(Struct, frozen=True, kw_only=True):
    """An upstream as its protected resource metadata describe it (RFC 9728)."""

    resource: str
    """Its identifier, sent byte for byte as `resource`; "": there are no metadata, and it is not sent."""
    is_parent: bool = False
    """The identifier stands for more than this upstream: for all below its path, perhaps for the whole host."""
    authorization_servers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """`scopes_supported`."""


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """An authorization server as its metadata describe it (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    token_auth_methods: tuple[str, ...] | None = None
    """None: it does not say."""
    scopes: tuple[str, ...] = ()
    """`scopes_supported`."""
    sends_issuer: bool = False
    """It promises `iss` with every authorization response (RFC 9207)."""
    reads_client_documents: bool = False
    """It accepts the URL of a client metadata document as client id."""
    is_legacy: bool = False
    """Nothing describes it: its endpoints are the defaults of 2025-03-26."""


class Discovery(Struct, frozen=True, kw_only=True):
    """Everything that a sign-in at an upstream begins with."""

    resource: ProtectedResource
    server: AuthorizationServer
    scope: str
    """The scopes to ask for, joined by spaces; "": none is named in the request."""
    allowed: Allowed = Allowed()
    """Who may be asked."""


class ClientFacts(Struct, frozen=True, kw_only=True):
    """The hub as one authorization server knows it, without the secret."""

    issuer: str
    client_id: str
    token_auth: str = "none"
    """The method of the token endpoint: `none`, `client_secret_basic`, `client_secret_post`, `private_key_jwt`."""
    redirect_uri: str = ""
    kind: str = "registered"
    """`configured`, `document` (a client metadata document) or `registered` (RFC 7591)."""
    expires_at: float = 0.0
    """Wall time at which the secret ends; 0: never."""


class OAuthClient(ClientFacts, frozen=True, kw_only=True):
    """The hub as one authorization server knows it."""

    secret: Secret | None = None


class GrantKey(Struct, frozen=True):
    """The key of a grant: whose it is, and for what. Hashable."""

    issuer: str
    resource: str
    upstream: str
    principal: str


class TokenAnswer(Struct, frozen=True, kw_only=True):
    """A successful answer of a token endpoint (RFC 6749 5.1)."""

    access_token: Secret
    refresh_token: Secret | None = None
    expires_in_s: float | None = None
    """Seconds that the access token lives; None: nobody says."""
    scope: str | None = None
    """None: as asked for."""
    id_token: Secret | None = None


class Grant(Struct, frozen=True, kw_only=True):
    """One sign-in: its tokens, and how they are renewed. A renewal makes a grant of the next generation."""

    key: GrantKey
    generation: int = 1
    access_token: Secret
    refresh_token: Secret | None = None
    obtained_at: float
    """Wall time of the token answer."""
    expires_at: float | None = None
    """Wall time at which the access token ends; None: nobody knows."""
    scope: str = ""
    """Granted."""
    asked_scope: str = ""
    """Asked for, in this sign-in and those before."""
    signed_in_at: float
    """Wall time of the sign-in."""
    server: AuthorizationServer
    client: OAuthClient
    sends_resource: bool = True
    """`resource` goes with token requests, too."""
    origin: str = ""
    """Scheme, host and port of the upstream (`token_answers.origin_of`); the tokens are sent nowhere else. "": the
    origin of the resource."""
    id_token: Secret | None = None
    """Who signed in, for an identity provider that vouches for people at other servers; else None."""
    note: str = ""
    """The note on it for a person, for instance that a renewal failed."""
    sign_in_needed: bool = False
    """It cannot be renewed any more; the access token is used while it lasts."""


class OAuthAccount(Struct, frozen=True):
    """A principal at an upstream, and how the hub signs in there. `upstream` "": the company's identity provider."""

    upstream: str
    url: str
    principal: str
    settings: UpstreamOAuth

    @property
    def by_person(self) -> bool:
        """True if a grant begins with a person who signs in."""
        return self.settings.grant not in ("client_credentials", "id_jag")

    def can_renew(self, grant: Grant | None) -> bool:
        """True if the next token after `grant` can be got without a person."""
        can_refresh = grant is not None and grant.refresh_token is not None and not grant.sign_in_needed
        return can_refresh or not self.by_person


def account_of(upstream: str, config: UpstreamConfig, principal: str) -> OAuthAccount:
    """The account of a principal at an upstream, as that is configured now."""
    return OAuthAccount(upstream, config.url or "", principal, config.oauth)


class AccountRow(Struct, frozen=True, kw_only=True):
    """One account, for `hubd auth --status`. Times are wall time."""

    upstream: str
    """"": the company's identity provider."""
    principal: str
    state: str
    issuer: str
    expires_at: float | None
    renewable: bool
    scope: str
    note: str
    key_source: str
    """The place of the key that seals it."""


IDENTITY_PROVIDER: Final = "the identity provider"
"""The company's identity provider in sentences; as an upstream it has the name ""."""


def sign_in_command(upstream: str) -> str:
    """The command by which a person signs in; `upstream` "": at the company's identity provider."""
    return f'"hubd auth {upstream}"' if upstream else '"hubd auth --idp"'


def sign_in_needed(upstream: str, issuer: str) -> str:
    """The sentence: nobody has signed in yet, or what there was is over."""
    at = f" at {issuer}" if issuer else ""
    return f"{upstream or IDENTITY_PROVIDER} needs you to sign in{at}; run {sign_in_command(upstream)}."


def same_issuer(one: str, other: str) -> bool:
    """True if two issuers are one: the same text, but for the slash after a host alone, which many add or leave out."""
    if one == other:
        return True
    without = one.removesuffix("/")
    return without == other.removesuffix("/") and without.count("/") == 2 and not {"?", "#"} & set(without)


def settings_of(idp: IdentityProvider) -> UpstreamOAuth:
    """The settings of signing in at the identity provider."""
    return UpstreamOAuth(issuer=idp.issuer, client_id=idp.client_id, client_secret=idp.client_secret)
