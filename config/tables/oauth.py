"""The settings of signing in at servers by OAuth: of the whole hub, and of one server. Declared as in `settings`."""

from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from config.setting import Secret, Setting, live, reconnect, restart

OWN_PARAMETERS: Final = frozenset(
    {
        *("response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method", "scope"),
        *("resource", "nonce", "prompt", "request", "request_uri", "response_mode", "client_secret"),
        *("client_assertion", "client_assertion_type"),
    }
)
"""Parameters of the authorization request that the hub alone writes, or that nobody is to send in a URL."""


def _here(**facts: Any) -> Setting:
    """Facts of a setting that decides how the hub signs in at one server."""
    return reconnect(expanded=True, mask="never", **facts)


class IdentityProvider(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The company's identity provider, for servers with `grant = "id_jag"`."""

    issuer: Annotated[str, live(expanded=True, mask="never", pattern=r"https?://|$")] = ""
    """Its issuer identifier, a URL."""
    client_id: Annotated[str, live(expanded=True, mask="never")] = ""
    """The id under which the hub is registered there."""
    client_secret: Annotated[Secret | None, live(expanded=True)] = None
    """The secret that belongs to it, best as a reference: `${file:...}`."""
    id_token: Annotated[Secret | None, live(expanded=True)] = None
    """An ID token for machines, where nobody signs in: another program keeps it fresh. A reference: `${file:...}`."""


class OAuthConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signing in at servers: what authorization servers are told of this hub."""

    redirect_uri: Annotated[str, live(mask="never", pattern=r"https?://|$")] = ""
    """The address that browsers come back to; by default `/oauth/callback` of the hub's own listener."""
    client_name: Annotated[str, live(mask="never")] = "hubd"
    """The name under which the hub registers at authorization servers."""
    client_metadata_url: Annotated[str, live(mask="never", pattern=r"https://|$")] = ""
    """The https URL of a client metadata document, which is the hub's client id where such documents are read."""
    open_browser: Annotated[Literal["auto", "never"], live()] = "auto"
    """`hubd auth` opens a browser where there is one; `never`: it only prints the address."""
    keyring: Annotated[bool, restart()] = False
    """The key that seals what is kept of sign-ins is in the keyring, and not in a file beside it."""
    idp: Annotated[IdentityProvider, live()] = IdentityProvider()
    """The company's identity provider, for servers with `grant = "id_jag"`."""


class UpstreamOAuth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signing in at one server. All of it is found out; these settings are for servers that say too little, or less
    than they need. An Authorization in `headers` switches it off."""

    grant: Annotated[Literal["authorization_code", "client_credentials", "id_jag", "none"], reconnect()] = (
        "authorization_code"
    )
    """`authorization_code`: a person signs in; `client_credentials`: the hub signs in as itself; `id_jag`: by the
    company's identity provider; `none`: the hub does not sign in there."""
    account: Annotated[Literal["shared", "each"], reconnect()] = "shared"
    """`shared`: the owner of the hub signs in, and all hosts act as that person; `each`: every principal signs in."""
    client_id: Annotated[str, _here(instead_of=("clientId",))] = ""
    """The id under which the hub is registered at the authorization server; without it the hub registers itself."""
    client_secret: Annotated[Secret | None, reconnect(expanded=True, instead_of=("clientSecret",))] = None
    """The secret that belongs to `client_id`, best as a reference: `${file:...}`. It needs `issuer`."""
    private_key: Annotated[Secret | None, reconnect(expanded=True)] = None
    """A private key in PEM form in place of a secret, as a reference: `${file:...}`. It needs `issuer`."""
    key_id: Annotated[str, _here()] = ""
    """The `kid` of `private_key`, if the authorization server knows several keys."""
    signing_alg: Annotated[Literal["ES256", "ES384", "RS256", "PS256", "EdDSA"], reconnect()] = "ES256"
    """The algorithm of signatures by `private_key`."""
    token_auth: Annotated[
        Literal["auto", "none", "client_secret_basic", "client_secret_post", "private_key_jwt"], reconnect()
    ] = "auto"
    """The way in which the hub proves its `client_id` at the token endpoint; `auto`: as the authorization server
    says."""
    issuer: Annotated[str, _here(pattern=r"https?://|$")] = ""
    """The authorization server to trust, whatever the server itself names."""
    metadata_url: Annotated[str, _here(pattern=r"https?://|$")] = ""
    """The address of the metadata of `issuer`, if it is not at one of the usual places."""
    scopes: Annotated[tuple[str, ...], reconnect(mask="never", instead_of=("scope",))] = ()
    """Exactly these scopes are asked for."""
    max_scopes: Annotated[tuple[str, ...], reconnect(mask="never")] = ()
    """Globs of scopes; others are never asked for, whoever wants them."""
    resource: Annotated[str, _here(pattern=r"https?://|$")] = ""
    """The resource identifier of the server, if it is not its URL."""
    resource_parameter: Annotated[Literal["send", "omit"], reconnect()] = "send"
    """`omit`: for authorization servers that refuse to be told which resource a token is for."""
    extra: Annotated[dict[str, str], reconnect()] = {}
    """Further parameters of the authorization request, such as `audience` or `access_type`."""
    pkce: Annotated[Literal["required", "assume"], reconnect()] = "required"
    """`assume`: the authorization server supports PKCE, though it does not say so."""
    redirect_uri: Annotated[str, _here(pattern=r"http://|$")] = ""
    """A loopback redirect URI that was registered for `client_id` elsewhere."""
