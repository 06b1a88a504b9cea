"""Settings of who may do what, as structs that `config.settings` puts together with all others: signing in at servers
by OAuth, who is let in over HTTP beside the hub's own token, rules, hooks and sandboxes, and how much servers may ask.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from config.setting_declarations import Secret, Setting, live, reconnect, restart

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
    """Whoever lacks only scopes for something is shown it, and told which (403), in place of being told nothing."""
    issuers: Annotated[tuple[AccessIssuer, ...], live(hints="issuer")] = ()
    """Authorization servers whose tokens open this hub."""
    tokens: Annotated[tuple[AccessToken, ...], live(hints="token")] = ()
    """Tokens of hosts, beside those that `hubd token new` made."""
    proxy: Annotated[TrustedProxy, live()] = TrustedProxy()
    """A proxy that says who is behind it."""


# --- rules of who may use what ---------------------------------------------------------------------------------------

PolicyEffect = Literal["allow", "ask", "deny"]
Pinning = Literal["off", "warn", "freeze", "quarantine", "required"]
HiddenText = Literal["strip", "quarantine", "pass"]


class ConditionalRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule that looks at the arguments of a call."""

    effect: Annotated[PolicyEffect | None, live()] = None
    """What becomes of a call that it is about."""
    match: Annotated[tuple[str, ...], live(mask="never", hints="tools selectors")] = ()
    """Selectors; it is about a tool that any of them means."""
    when: Annotated[str, live(mask="never", hints="condition if")] = ""
    """A condition in CEL on `args`, `tool`, `upstream`, `original`, `host`, `principal`, `hints` and `trusted`; without
    it the rule always counts."""
    reason: Annotated[str, live(mask="never")] = ""
    """The reason, as a clause that the model and the person are told."""


class PolicyConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may use what. A deny wins over an ask, and that over an allow; else `default` counts. Each list has
    selectors, such as "host:cursor !@read-only" or "resource:file:///etc/*"."""

    mode: Annotated[Literal["open", "careful", "read-only"], live()] = "open"
    """`careful`: a person is asked about whatever may destroy something; `read-only`: nothing is allowed but what only
    reads. Only what a `trusted` server or `hints` say is believed."""
    default: Annotated[Literal["allow", "deny"] | None, live()] = None
    """What counts where no rule says anything: "allow", but "deny" once there are several principals."""
    allow: Annotated[tuple[str, ...], live(mask="never")] = ()
    """What may be used, where `default` is "deny"."""
    ask: Annotated[tuple[str, ...], live(mask="never")] = ()
    """What a person is asked about each time."""
    deny: Annotated[tuple[str, ...], live(mask="never")] = ()
    """What does not exist for those whom it is about."""
    rules: Annotated[tuple[ConditionalRule, ...], live(hints="rule")] = ()
    """Rules with conditions on arguments; these need the extra `cel`."""
    trifecta: Annotated[Literal["off", "ask", "deny"], live()] = "off"
    """What becomes of calls of `outward` tools (`flow`) in a conversation that has called a `private` and an
    `untrusted` one."""
    pinning: Annotated[Pinning, live(hints="pin pins")] = "warn"
    """Definitions of servers (tools, prompts, templates, instructions) that are new or have changed since they were
    approved. `warn`: shown, and told; `freeze`: hosts keep seeing the approved ones; `quarantine`: held back until
    `hubd approve`; `required`: so is what is seen for the first time; `off`: nobody looks."""
    hidden_text: Annotated[HiddenText, live()] = "strip"
    """Characters in definitions that models read and nobody sees. `strip`: taken out; `quarantine`: a definition that
    has some is held back; `pass`: left."""
    pins_file: Annotated[str | None, live(expanded=True, path=True)] = None
    """A file of `hubd pins export`: what it says of a server is approved, and nothing else is, whoever asks."""


# --- hooks -----------------------------------------------------------------------------------------------------------


class HookConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program, or an address, that is asked about calls of tools, in the format of Claude Code's hooks."""

    name: Annotated[str, live(mask="never", pattern=r"[a-z0-9][a-z0-9._-]{0,63}$")] = ""
    """A name, which no other hook has."""
    on: Annotated[Literal["before", "after"] | None, live()] = None
    """`before`: it is asked before a call; `after`: it sees the result."""
    match: Annotated[tuple[str, ...], live(mask="never", hints="tools matcher selectors")] = ()
    """Selectors as in `[policy]`; it is asked about a tool that any of them means."""
    command: Annotated[tuple[str, ...], live(mask="arguments", hints="cmd")] = ()
    """The program and its arguments, without a shell."""
    url: Annotated[str, live(mask="url", pattern=r"https?://|$")] = ""
    """In place of a program: an address that the same is posted to, https, or http on this machine."""
    timeout_s: Annotated[float, live(min=1, max=60, unit="seconds", hints="timeout")] = 5.0
    """Time for its answer."""
    may: Annotated[tuple[Literal["rewrite", "allow"], ...], live()] = ()
    """Beside denying, and having a person asked: `rewrite` arguments and results; `allow` in place of a person."""
    on_error: Annotated[Literal["deny", "pass"], live()] = "deny"
    """What becomes of the call where it gives no answer."""


# --- what a server may do ---------------------------------------------------------------------------------------------


class Sandbox(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the process of a server may see, write and take of this machine."""

    preset: Annotated[Literal["auto", "off", "shield", "own-home", "offline"], reconnect()] = "auto"
    """`shield`: all but the hub's own directories and other programs' memory; `own-home`: the system, tool chains, and
    a home of its own in place of yours; `offline`: that without a network; `off`: everything that you may; `auto`:
    `shield` where bubblewrap works, else `off`."""
    read: Annotated[tuple[str, ...], reconnect(expanded=True, mask="never")] = ()
    """Files and directories that a server with a home of its own may read, too."""
    write: Annotated[tuple[str, ...], reconnect(expanded=True, mask="never")] = ()
    """Those that it may write, too."""
    memory_bytes: Annotated[int, reconnect(min=0, unit="bytes", zero="no limit")] = 0
    """Memory for the data of each of its processes; 0: no limit."""
    processes: Annotated[int, reconnect(min=0, unit="processes", zero="no limit")] = 0
    """Its processes and threads together, in a sandbox; 0: no limit."""
    fallback: Annotated[Literal["none", "off"], reconnect()] = "none"
    """`off`: where a preset that is written here cannot be had, the server runs without; else it does not start."""


MAX_PER_MINUTE: Final = 10_000


class SamplingBudget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server may have the models of hosts do for it."""

    allow: Annotated[bool | None, live()] = None
    """It may ask at all; by default where the hub serves one person."""
    per_minute: Annotated[int, live(min=0, max=MAX_PER_MINUTE, unit="questions", zero="none")] = 10
    """Questions within a minute, all hosts together."""
    max_tokens: Annotated[int, live(min=0, unit="tokens", zero="none")] = 8192
    """The most tokens that one question may ask for."""
    tokens_per_day: Annotated[int, live(min=0, unit="tokens", zero="none")] = 200_000
    """Tokens that all questions within 24 hours may ask for."""
    tools: Annotated[bool, live()] = True
    """Its questions may offer the model tools."""


class ElicitationBudget(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server may ask the people at hosts."""

    allow: Annotated[bool, live()] = True
    """It may ask at all."""
    per_minute: Annotated[int, live(min=0, max=MAX_PER_MINUTE, unit="questions", zero="none")] = 10
    """Questions within a minute, all hosts together."""
    per_call: Annotated[int, live(min=0, max=MAX_PER_MINUTE, unit="questions", zero="none")] = 5
    """Questions during one call."""
    url_hosts: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Globs over the names of hosts to which its questions may send people; `[]`: any host, by https."""
