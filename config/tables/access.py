"""The settings of who is let in over HTTP, beside the hub's own token. Declared as in `settings`."""

from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from config.setting import Secret, Setting, live

Algorithm = Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"]
SECRET_HEADER: Final = "X-Hubd-Proxy-Secret"
"""The header field in which a trusted proxy shows `secret`."""


def _live(**facts: Any) -> Setting:
    """Facts of a text that counts at once, is never masked, and may hold variables."""
    return live(expanded=True, mask="never", **facts)


class Introspection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The hub as the authorization server knows it that says whether tokens hold which cannot be read (RFC 7662)."""

    client_id: Annotated[str, _live(instead_of=("clientId",))] = ""
    """The id of the hub there."""
    client_secret: Annotated[Secret | None, live(expanded=True, instead_of=("clientSecret",))] = None
    """The secret that belongs to it, best as a reference: `${file:...}`."""


class AccessIssuer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An authorization server whose tokens open this hub."""

    name: Annotated[str, live(pattern=r"[a-z0-9-]{1,32}$")] = ""
    """A short name; who comes with its tokens is the principal NAME/SUBJECT."""
    issuer: Annotated[str, _live(pattern="https?://", instead_of=("url", "iss"))] = ""
    """Its issuer identifier, a URL, exactly as it writes it into tokens."""
    audiences: Annotated[tuple[str, ...], live(mask="never", instead_of=("audience", "aud"))] = ()
    """Audiences of tokens for this hub, registered for nothing else; for servers that cannot be told the hub's URL."""
    clients: Annotated[tuple[str, ...], live(mask="never", instead_of=("client_ids",))] = ()
    """Client ids of the hosts that may come; `[]`: all."""
    subject: Annotated[str, live(mask="never")] = "sub"
    """The claim that names the person. `email` counts only if the server says that it was verified."""
    groups: Annotated[str, live(mask="never")] = "groups"
    """The claim that names the groups of the person."""
    algorithms: Annotated[tuple[Algorithm, ...], live()] = ("ES256", "RS256", "EdDSA")
    """Algorithms of signatures that are accepted."""
    introspection: Annotated[Introspection, live()] = Introspection()
    """The credentials by which the server is asked about tokens that cannot be read here."""


class AccessToken(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token of one host. Others are made by `hubd token new`, which keeps no token anywhere."""

    name: Annotated[str, live(pattern=r"[a-z0-9][a-z0-9._-]{0,63}$")] = ""
    """A name, which no other token has."""
    token: Annotated[Secret | None, live(expanded=True)] = None
    """The token: 16 or more characters, best as a reference: `${file:...}`."""
    principal: Annotated[str, live(mask="never")] = ""
    """The account of the host; by default that of the hub's owner."""
    host: Annotated[str, live(mask="never", instead_of=("label",))] = ""
    """The label of the host; by default the name of the token."""
    expires: Annotated[str, live(mask="never", pattern=r"[0-9]{4}-[0-9]{2}-[0-9]{2}$")] = ""
    """The day from which it does not count any more, such as 2027-01-01 (UTC)."""
    profile: Annotated[str, live(mask="never")] = ""
    """The profile that it opens, and nothing else; by default the token chooses none."""


class TrustedProxy(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A proxy that says who is behind it, for `auth = "proxy"`. It must set `header` on every request."""

    header: Annotated[str, live(mask="never", pattern="[A-Za-z0-9-]*$")] = ""
    """The header field that names the person."""
    peers: Annotated[tuple[str, ...], live(mask="never")] = ("127.0.0.1", "::1")
    """Addresses that the proxy connects from."""
    secret: Annotated[Secret | None, live(expanded=True)] = None
    """The secret that the proxy sends as `X-Hubd-Proxy-Secret`: 16 or more characters, best as a reference:
    `${file:...}`."""
    peer_uid: Annotated[tuple[int, ...], live()] = ()
    """Numbers of the users that the proxy may run as on this machine, in place of `secret`."""


class AccessConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who is let in over HTTP, beside those who have the hub's token."""

    resource: Annotated[str, _live(pattern=r"https?://[^?#]*/mcp$|$")] = ""
    """URL of this hub as hosts write it, with `/mcp`; tokens must be for it. By default made of `allowed_hosts`."""
    required_scopes: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Scopes that a token of an authorization server must have."""
    step_up: Annotated[bool, live()] = False
    """Kept for later; it has to be false."""
    issuers: Annotated[tuple[AccessIssuer, ...], live(instead_of=("issuer",))] = ()
    """Authorization servers whose tokens open this hub."""
    tokens: Annotated[tuple[AccessToken, ...], live(instead_of=("token",))] = ()
    """Tokens of hosts, beside those that `hubd token new` made."""
    proxy: Annotated[TrustedProxy, live()] = TrustedProxy()
    """A proxy that says who is behind it."""
