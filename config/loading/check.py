"""Checks of a configuration beyond the types of `settings`: bounds, how settings fit together, signing in, registries.

Pure; everything found is yielded as `Problem`. Keys are those of the struct: of the hub, or of one upstream. Values may
hold secrets that variables brought in, so problems describe what is expected and show no value of a text.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from config import settings
from config.environment.variables_for_servers import mistakes
from config.errors import Problem, needs_extra
from config.loading import check_http_access
from config.loading.check_profiles import problems_of_profiles, problems_of_renames
from config.loading.check_rules import problems_of_hooks, problems_of_policy, problems_of_rules_of_server
from config.loading.check_sharing import problems_of_sharing, warnings_of_sharing
from config.name_globs import problem_of
from config.references import NUL, blank_references, references_in
from config.security_settings import OWN_PARAMETERS, OAuthConfig, Sandbox, UpstreamOAuth
from config.setting_declarations import declarations, flaw_in_bounds, leaves_of, texts_of
from config.settings import LOOPBACK, HubConfig, RegistryConfig, ReplicaConfig, UpstreamConfig

HAS_SCHEMAS: Final = find_spec("jsonschema_rs") is not None
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_FILE_URI = re.compile(r"file://(localhost)?/[!-~]*")
_NO_TEXT: Final = "is no text: it holds what is not UTF-8, from a variable or a directory's name perhaps"
_ENV_NAME = re.compile(r"[^=\x00]+")


def check_hub(config: HubConfig) -> None:
    """Raise the first problem of the hub's own settings."""
    for problem in problems_of_hub(config):
        raise problem


def problems_of_hub(config: HubConfig) -> Iterator[Problem]:
    """Problems of the hub's own settings."""
    try:
        host, _ = split_listen(config.listen)
    except Problem as problem:
        yield problem
    else:
        yield from check_http_access.problems_of_access(config, is_open=not check_http_access.is_loopback(host))
    yield from problems_of_bounds(config)
    yield from problems_of_oauth_in_hub(config.oauth)
    yield from problems_of_profiles(config.profiles, config.name_budget)
    if config.park_total_s < config.park_ttl_s:
        text = f"is less than one question may wait (park_ttl_s, {config.park_ttl_s:g}); raise it, or lower that"
        yield Problem("park_total_s", text)
    yield from problems_of_sharing(config)
    yield from problems_of_registries(config.registries)
    yield from problems_of_policy(config)
    yield from problems_of_hooks(config)


def problems_of_bounds(values: Struct) -> Iterator[Problem]:
    """Numbers beyond the bounds that their settings declare, in a struct of `settings` and in its tables."""
    for keys, declared, value in leaves_of(values):
        numbers = {keys: value} if declared.each is None else {(*keys, key): each for key, each in value.items()}
        for path, number in numbers.items():
            if why := flaw_in_bounds(number, declared.each or declared.setting):
                yield Problem(path, why)


def warnings_of_hub(config: HubConfig) -> Iterator[Problem]:
    """Warnings about the hub's own settings."""
    yield from warnings_of_sharing(config)
    yield from check_http_access.warnings_of_access(config)


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.
    Raises: Problem, if it is neither a name nor an address with a port."""
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = bare and not re.search(r"[\s/@\[\]]", bare) and (":" not in bare or bare != host)
    if not (colon and sound and port.isascii() and port.isdigit() and int(port) < 65536):
        text = f'expected HOST:PORT such as "127.0.0.1:8765" or "[::1]:8765", not "{listen}"'
        raise Problem("listen", f"{text}; variables are not replaced here" if "${" in listen else text)
    return bare, int(port)


def problems_of_upstream(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of one upstream."""
    if (upstream.command is None) == (upstream.url is None):
        text = "an upstream has either `command` (a program to start) or `url` (a server to reach)"
        yield Problem((), f"{text}, {'not both' if upstream.url else 'and here is neither'}")
        return
    yield from _check_text(upstream)
    if upstream.disabled:  # its variables were not looked up, so its values mean little
        return
    if upstream.command is not None:
        yield from _check_command(upstream, upstream.command)
    elif upstream.url is not None:
        yield from _check_url(upstream, upstream.url)
        yield from problems_of_oauth(upstream)
    yield from _check_sharing(upstream)
    if why := problem_of(upstream.tools):
        yield Problem("tools", why)
    yield from problems_of_rules_of_server(upstream)
    if upstream.elicitation.url_hosts and (why := problem_of(upstream.elicitation.url_hosts)):
        yield Problem("elicitation.url_hosts", why)
    for name in ("validate", "validate_output"):
        if getattr(upstream, declarations(UpstreamConfig)[name].attribute) == "strict" and not HAS_SCHEMAS:
            yield Problem(name, f'"strict" {needs_extra("schema")}')
    yield from problems_of_renames(upstream)
    yield from problems_of_bounds(upstream)


def warnings_of_upstream(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Warnings about one upstream."""
    program, *rest = (upstream.command or "").split() or [""]
    if rest and "/" not in program and not upstream.disabled:
        text = f'is started as one program whose name holds spaces; if these are arguments, write command = "{program}"'
        yield Problem("command", f"{text} and args = [...]")


def _check_text(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Half a character in JSON (`\\ud800`), or bytes of a variable or of a directory's name, which are no text."""
    for keys, _, value in leaves_of(upstream):
        parts = {(*keys, key): (key, each) for key, each in value.items()} if isinstance(value, dict) else {keys: value}
        for path, part in parts.items():
            try:
                "".join(texts_of(part)).encode()
            except UnicodeEncodeError:
                yield Problem(path, _NO_TEXT)


def _check_command(upstream: UpstreamConfig, command: str) -> Iterator[Problem]:
    if not command:
        yield Problem("command", "is empty; name the program to start")
    yield from _check_needs(upstream, "command")
    yield from _check_sandbox(upstream.sandbox)
    if upstream.transport in ("http", "sse"):
        yield Problem("transport", f'"{upstream.transport}" needs a `url`; leave it out beside `command`')
    for name in ("command", "cwd", "args"):
        if any("\0" in blank_references(text) for text in texts_of(getattr(upstream, name))):
            yield Problem((name,), "holds a NUL character, which no program can be given")
    for name, secret in upstream.env.items():
        if not _ENV_NAME.fullmatch(name):
            yield Problem(("env", name), "is no name for a variable: it is empty or holds `=`")
        if "\0" in blank_references(secret.reveal()):
            yield Problem(("env", name), "holds a NUL character, which no program can be given")
    yield from (Problem("pass", mistake) for mistake in mistakes(upstream.pass_))


def _check_sandbox(sandbox: Sandbox) -> Iterator[Problem]:
    for name in ("read", "write"):
        if any(NUL in path for path in getattr(sandbox, name)):
            text = "holds a NUL character, or a reference that is read at the start, which no path may here"
            yield Problem(("sandbox", name), text)
    if sandbox.processes and sandbox.preset == "off":
        text = "needs a sandbox: outside of one all your processes would count; write another preset, or take it out"
        yield Problem(("sandbox", "processes"), text)


def _check_sharing(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Settings of sessions that contradict each other."""
    mode, roots = upstream.session_mode, upstream.roots
    if isinstance(roots, tuple):
        if not roots:
            yield Problem("roots", 'is an empty list; write "none" for no roots, or file:// URIs')
        if not all(_FILE_URI.fullmatch(uri) for uri in roots):
            yield Problem("roots", 'expected URIs of folders, such as "file:///home/me/project"')
    elif roots == "host":
        if mode in ("singleton", "shared"):
            text = f'"host" gives each host a session of its own, and session_mode = "{mode}" allows only one;'
            yield Problem("roots", f"{text} take one of them out, or list the roots")
        if upstream.client_features == "none":
            text = '"host" has no effect with client_features = "none", which says that hosts have no roots'
            yield Problem("roots", f"{text}; take one of them out")


def _check_needs(upstream: UpstreamConfig, given: Literal["command", "url"]) -> Iterator[Problem]:
    """Settings that belong to the other of `command` and `url`."""
    instead = "a program takes `args` and `env`" if given == "command" else "a server reached by URL takes `headers`"
    for name, declared in declarations(UpstreamConfig).items():
        needs = declared.setting.needs
        if needs not in (None, given) and getattr(upstream, declared.attribute) != declared.default:
            yield Problem((name,), f"belongs to a `{needs}`; {instead}")


def _check_url(upstream: UpstreamConfig, url: str) -> Iterator[Problem]:
    yield from _check_needs(upstream, "url")
    if upstream.transport == "stdio":
        yield Problem("transport", '"stdio" needs a `command`; leave it out beside `url`')
    problem = Problem("url", 'expected an address such as "https://example.com/mcp"')
    begins_later = url.startswith("\0") and references_in(url)  # what it is then is checked when it is known
    url = "https://x/" if begins_later else blank_references(url)
    parts = check_http_access.split_url(url)
    if parts is None:
        yield problem
        return
    if parts.scheme not in ("http", "https") or not parts.hostname or not check_http_access.is_plain(url):
        yield problem
    if parts.username is not None or parts.password is not None:
        yield Problem("url", "holds a user name or password; send it in `headers` as Authorization")
    for name, secret in upstream.headers.items():
        if not _TOKEN.fullmatch(name):
            yield Problem(("headers", name), "is no name for a header: letters, digits and dashes")
        value = blank_references(secret.reveal())
        if not _HEADER_VALUE.fullmatch(value) or value != value.strip():
            text = "is no value for a header: printable ASCII without line breaks or outer spaces"
            yield Problem(("headers", name), text)


MAX_EXTRA: Final = 16
MAX_TEXT: Final = 2048
_VISIBLE = re.compile(r"[\x20-\x7e]*")


def problems_of_oauth(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of signing in at one upstream."""
    oauth = upstream.oauth
    yield from _problems_of_texts(oauth)
    yield from _problems_of_client(oauth)
    for name in ("scopes", "max_scopes"):
        if not all(map(check_http_access.SCOPE.fullmatch, getattr(oauth, name))):
            text = "holds what is no scope: visible ASCII without quotes, backslashes or spaces; write one for each"
            yield Problem(("oauth", name), text)
    if why := problem_of(oauth.max_scopes):
        yield Problem("oauth.max_scopes", why)
    for name in oauth.extra:
        if name in OWN_PARAMETERS:
            text = f"{name} is not sent: the hub sets it itself, or it must not stand in a URL; take it out"
            yield Problem(("oauth", "extra", name), text)
    if len(oauth.extra) > MAX_EXTRA or any(len(key + value) > MAX_TEXT for key, value in oauth.extra.items()):
        yield Problem("oauth.extra", f"holds more than {MAX_EXTRA} parameters, or one of more than {MAX_TEXT} bytes")


def problems_of_oauth_in_fleet(
    replica: ReplicaConfig, upstreams: Mapping[str, UpstreamConfig]
) -> Iterator[tuple[str, Problem]]:
    """Upstreams whose settings want people to sign in at one hub of several, with what is wrong about that."""
    if replica == ReplicaConfig():
        return
    for name, upstream in upstreams.items():
        is_wanted = upstream.oauth != UpstreamOAuth() and upstream.oauth.grant == "authorization_code"
        if is_wanted and upstream.url is not None and not upstream.disabled:
            text = "has people sign in, and hubs with [replica] do not share sign-ins: each would ask them again; set"
            instead = 'grant = "client_credentials" or "id_jag", or headers.Authorization in place of this table'
            yield name, Problem("oauth", f"{text} {instead}")


def problems_of_oauth_in_hub(config: OAuthConfig) -> Iterator[Problem]:
    """Problems of what authorization servers are told of the hub."""
    for name in ("redirect_uri", "client_metadata_url"):
        if (value := getattr(config, name)) and not _is_address(value):
            yield Problem(("oauth", name), _ADDRESS)
    if (url := config.client_metadata_url) and (not url.startswith("https://") or urlsplit(url).path in ("", "/")):
        text = "must be an https URL with a path, such as https://example.com/oauth/client.json"
        yield Problem("oauth.client_metadata_url", text)
    if (uri := config.redirect_uri) and not (uri.startswith("https://") or urlsplit(uri).hostname in LOOPBACK):
        text = "must be https, or http at 127.0.0.1, localhost or [::1]: anybody on the way could read the codes"
        yield Problem("oauth.redirect_uri", text)
    if not config.client_name or len(config.client_name) > 64 or not config.client_name.isprintable():
        yield Problem("oauth.client_name", "must be 1 to 64 printable characters")
    if config.idp.issuer and not _is_address(config.idp.issuer):
        yield Problem("oauth.idp.issuer", _ADDRESS)
    if bool(config.idp.issuer) != bool(config.idp.client_id):
        yield Problem("oauth.idp", "needs both `issuer` and `client_id`")
    if config.idp.id_token is not None and not config.idp.issuer:
        yield Problem("oauth.idp.issuer", "is missing: id_token is shown to it")


def _problems_of_texts(oauth: UpstreamOAuth) -> Iterator[Problem]:
    for name in ("issuer", "metadata_url", "resource", "redirect_uri"):
        value = getattr(oauth, name)
        if value and NUL not in value and not _is_address(value):
            yield Problem(("oauth", name), _ADDRESS)
    uri = urlsplit(oauth.redirect_uri) if _is_address(oauth.redirect_uri) else None
    if uri is not None and (uri.scheme != "http" or uri.hostname not in LOOPBACK or not uri.port):
        text = "must be http at 127.0.0.1, localhost or [::1] with a port, such as http://127.0.0.1:3118/callback"
        yield Problem("oauth.redirect_uri", text)
    for name in ("client_id", "key_id"):
        if NUL not in getattr(oauth, name) and not _VISIBLE.fullmatch(getattr(oauth, name)[: MAX_TEXT + 1]):
            yield Problem(("oauth", name), "must be visible ASCII")


def _problems_of_client(oauth: UpstreamOAuth) -> Iterator[Problem]:
    has_secret, has_key = oauth.client_secret is not None, oauth.private_key is not None
    proves, auth, grant = has_secret or has_key, oauth.token_auth, oauth.grant
    unsaid = "is missing: without it the first server that this one names would get the secret, or its proof"
    is_named = bool(oauth.client_id and oauth.issuer)
    for is_wrong, name, text in (
        (has_secret and has_key, "private_key", "stands beside client_secret, and only one can be used; take one out"),
        (proves and not oauth.client_id, "client_id", "is missing: a secret or key belongs to one"),
        (proves and not oauth.issuer, "issuer", f"{unsaid}. `hubd auth NAME` prints the line to write"),
        (proves and auth == "none", "token_auth", '"none" makes no use of the secret or key; take one of them out'),
        (not has_key and auth == "private_key_jwt", "private_key", f'is missing, and token_auth is "{auth}"'),
        (not has_secret and "client_secret" in auth, "client_secret", f'is missing, and token_auth is "{auth}"'),
        (grant in ("client_credentials", "id_jag") and not is_named, "grant", f'"{grant}" needs client_id and issuer'),
        (grant == "client_credentials" and not proves, "grant", f'"{grant}" needs client_secret or private_key'),
    ):
        if is_wrong:
            yield Problem(("oauth", name), text)
    if grant != "authorization_code" and oauth.account == "each":
        yield Problem("oauth.account", f'"each" means that people sign in, and grant = "{grant}" does not')


_ADDRESS: Final = "expected an address such as https://example.com/path, without user name, fragment or spaces"


def _is_address(url: str) -> bool:
    """True if it is a URL that the hub may use."""
    parts = check_http_access.split_plain(url)
    if parts is None or len(url) > MAX_TEXT or "\\" in url or "#" in url:
        return False
    with suppress(ValueError):
        parse_qsl(parts.query, max_num_fields=32)
        return parts.scheme in ("http", "https")
    return False


def problems_of_registries(registries: Mapping[str, RegistryConfig]) -> Iterator[Problem]:
    """Problems of `[registries.NAME]`."""
    if len(registries) > settings.MAX_REGISTRIES:
        yield Problem("registries", f"holds more than {settings.MAX_REGISTRIES} registries")
    for name, registry in registries.items():
        keys = ("registries", name)
        if not settings.REGISTRY_NAME.fullmatch(name):
            yield Problem(keys, "cannot name a registry: use lower-case letters, digits and dashes, at most 32")
        if not registry.url and name != settings.OFFICIAL:
            yield Problem(keys, f'needs `url`, the address of the registry, such as url = "{settings.OFFICIAL_URL}"')
        elif registry.url and "${" not in registry.url and (flaw := flaw_of_registry(registry.url)):
            yield Problem((*keys, "url"), flaw)


def flaw_of_registry(url: str) -> str:
    """The reason why no registry can be asked at `url`; "": one can."""
    parts = check_http_access.split_plain(url)
    if parts is None or set(url) & set("\\?#") or parts.scheme not in ("http", "https"):
        return f"expected an address such as {settings.OFFICIAL_URL}, without user name, query or spaces"
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "must be https: anybody on the way could change which program is run (http only on this machine)"
    return ""
