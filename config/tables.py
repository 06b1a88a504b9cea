"""Tables of settings that `config.settings` puts together, declared as those there: signing in at servers by OAuth (of
the whole hub, and of one server), who is let in over HTTP beside the hub's own token, and profiles, which say what some
hosts are shown of all servers.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from config.name_globs import ALL
from config.setting_parts import Secret, Setting, live, reconnect, restart

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
    client_id: Annotated[str, _here(hints="clientId")] = ""
    """The id under which the hub is registered at the authorization server; without it the hub registers itself."""
    client_secret: Annotated[Secret | None, reconnect(expanded=True, hints="clientSecret")] = None
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
    scopes: Annotated[tuple[str, ...], reconnect(mask="never", hints="scope")] = ()
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


# --- who is let in over HTTP ------------------------------------------------------------------------------------------

Algorithm = Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"]
SECRET_HEADER: Final = "X-Hubd-Proxy-Secret"
"""The header field in which a trusted proxy shows `secret`."""


def _live(**facts: Any) -> Setting:
    """Facts of a text that counts at once, is never masked, and may hold variables."""
    return live(expanded=True, mask="never", **facts)


class Introspection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The hub as the authorization server knows it that says whether tokens hold which cannot be read (RFC 7662)."""

    client_id: Annotated[str, _live(hints="clientId")] = ""
    """The id of the hub there."""
    client_secret: Annotated[Secret | None, live(expanded=True, hints="clientSecret")] = None
    """The secret that belongs to it, best as a reference: `${file:...}`."""


class AccessIssuer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An authorization server whose tokens open this hub."""

    name: Annotated[str, live(pattern=r"[a-z0-9-]{1,32}$")] = ""
    """A short name; who comes with its tokens is the principal NAME/SUBJECT."""
    issuer: Annotated[str, _live(pattern="https?://", hints="url iss")] = ""
    """Its issuer identifier, a URL, exactly as it writes it into tokens."""
    audiences: Annotated[tuple[str, ...], live(mask="never", hints="audience aud")] = ()
    """Audiences of tokens for this hub, registered for nothing else; for servers that cannot be told the hub's URL."""
    clients: Annotated[tuple[str, ...], live(mask="never", hints="client_ids")] = ()
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
    host: Annotated[str, live(mask="never", hints="label")] = ""
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
    issuers: Annotated[tuple[AccessIssuer, ...], live(hints="issuer")] = ()
    """Authorization servers whose tokens open this hub."""
    tokens: Annotated[tuple[AccessToken, ...], live(hints="token")] = ()
    """Tokens of hosts, beside those that `hubd token new` made."""
    proxy: Annotated[TrustedProxy, live()] = TrustedProxy()
    """A proxy that says who is behind it."""


# --- profiles ---------------------------------------------------------------------------------------------------------

MAX_NAME_BUDGET: Final = 64
"""Tool names of more characters are refused by several hosts."""
MIN_NAME_BUDGET: Final = 32
DEFAULT_PROFILE: Final = "default"
"""The profile of hosts that nothing else gives one. It is always there: everything, unless it is configured."""


class ToolOverride(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tool as the hosts of a profile see it, by its visible name before renaming."""

    description: Annotated[str, live(mask="never", hints="describe descriptions")] = ""
    """The description, in place of the server's."""
    fix: Annotated[dict[str, Any], live(expanded=True, hints="fixed")] = {}
    """Arguments with values that hosts neither see nor send: the hub puts them in. Texts may hold ${VAR},
    ${file:path}, ${secret:NAME} and ${credential:NAME}, no ${cmd:ARGV}; while one has no value the tool is left out."""

    def __repr__(self) -> str:
        return f"<ToolOverride that fixes {', '.join(self.fix) or 'nothing'}>"  # values may be secrets


class ResolvedOverride(ToolOverride, frozen=True, kw_only=True):
    """An override among whose fixed values are some that files do not say themselves."""

    read: Annotated[tuple[Secret, ...], live()] = ()
    """The values that references gave, wherever in `fix` they stand now: masked in all that servers say."""
    unread: Annotated[dict[str, str], live(mask="never")] = {}
    """Arguments whose references have no value now, each with the reason and what to do. The tool is not shown, since
    without them it would be called with what a host sends."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of all servers that some hosts are shown: a choice, and other names and texts."""

    hosts: Annotated[tuple[str, ...], live(mask="never", hints="host labels")] = ()
    """Labels of `hubd connect --host` whose hosts are shown this profile; of a token, its `host`."""
    servers: Annotated[tuple[str, ...], live(mask="never", hints="upstreams server")] = ()
    """Servers whose tools, prompts, resources and instructions are shown; `[]`: those of all."""
    tools: Annotated[tuple[str, ...], live(mask="never", hints="allowed_tools")] = ALL
    """Globs over visible names of tools, as they are before renaming, such as "github__*"; what begins with `!` is
    taken away, and if all do, the rest is left. Tools that are left out do not exist for these hosts."""
    always: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Globs over the same names: tools that are shown in search mode, and loaded at once by hosts that load tools when
    they are needed."""
    search: Annotated[Literal["auto", "on", "off"], live()] = "auto"
    """Search mode: hosts are shown tools to find and call tools, in place of all. `auto`: where there are too many."""
    name_budget: Annotated[int | None, live(min=MIN_NAME_BUDGET, max=MAX_NAME_BUDGET, unit="characters")] = None
    """Characters of a visible name, if not as many as for all."""
    max_tools: Annotated[int | None, live(min=1, unit="tools")] = None
    """Number of tools above which `hubd status` warns; nothing is cut."""
    instructions: Annotated[str, live(mask="never")] = ""
    """Text for the model, in front of what the servers say."""
    rename: Annotated[dict[str, str], live(mask="never")] = {}
    """New names of tools by their visible names; both can be called, the new one is listed."""
    override: Annotated[dict[str, ToolOverride], live()] = {}
    """Tools that are described otherwise, or have arguments with fixed values, by visible name before renaming."""


Profiles = Mapping[str, Profile]
"""By name."""


def profile_problem(name: str, known: Collection[str]) -> str:
    """The reason why `name` is no profile that can be chosen, as a sentence; "": it is one."""
    if name == DEFAULT_PROFILE or name in known:
        return ""
    return f"there is no profile {name[:60]!r}; there are: {', '.join(sorted(known)) or 'none'}"
