"""Checks of the settings of one upstream."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, Literal
from urllib.parse import parse_qsl

from config.diagnostics import Problem, needs_extra
from config.environment.pass_variables_by_patterns import mistakes
from config.loading.checks.json_schemas import HAS_SCHEMAS
from config.loading.checks.oauth import problems_of_oauth
from config.loading.checks.rules import problems_of_rules_of_server
from config.loading.checks.server_and_tool_names import problems_of_renames
from config.loading.parse_addresses import is_plain, split_url
from config.loading.split_accounts import OWN, problems_of_accounts, split_accounts
from config.name_globs import problem_of
from config.secret_references import NUL, blank_references, references_in, references_of
from config.security_settings import Sandbox
from config.setting_declarations import declarations, leaves_of, problems_of_bounds, texts_of
from config.settings import UpstreamConfig

HAS_WEBSOCKET: Final = find_spec("wsproto") is not None
_SECRET_PARAMETER = re.compile(r"(?i:.*(token|secret|password|api[_-]?key|auth).*|key|sig|code)")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_FILE_URI = re.compile(r"file://(localhost)?/[!-~]*")
_NO_TEXT: Final = "is no text: it holds what is not UTF-8, from a variable or a directory's name perhaps"
_ENV_NAME = re.compile(r"[^=\x00]+")


def problems_of_upstream(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of one upstream, and of the accounts at it."""
    yield from problems_of_running(upstream)
    if not upstream.disabled and (upstream.command is None) != (upstream.url is None):
        yield from problems_of_accounts(upstream)
        if upstream.accounts:
            yield from _check_accounts(upstream)


def problems_of_running(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of one upstream as it runs, be it one of several accounts."""
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


def _check_accounts(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of what accounts have of their own."""
    for config in split_accounts({"": upstream}).values():
        for problem in problems_of_running(config):
            own = getattr(upstream.accounts[config.account], problem.keys[0], None) if problem.keys else None
            if problem.keys[:1] and problem.keys[0] in OWN and own:
                yield problem.below("accounts", config.account)


def _has_reference_to_secret(upstream: UpstreamConfig) -> bool:
    return any(each.kind == "secret" for each in references_of(upstream))


def warnings_of_upstream(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Warnings about one upstream."""
    program, *rest = (upstream.command or "").split() or [""]
    if rest and "/" not in program and not upstream.disabled:
        text = f'is started as one program whose name holds spaces; if these are arguments, write command = "{program}"'
        yield Problem("command", f"{text} and args = [...]")
    if upstream.account == "each" and not (upstream.disabled or upstream.url or _has_reference_to_secret(upstream)):
        yield Problem("account", '"each" has no effect: no setting holds a ${secret:NAME} that would be of each one')
    if upstream.speaks_websocket and not upstream.disabled and _has_secret(upstream.url or ""):
        text = "seems to hold a secret after the `?`, which proxies and servers write into their logs;"
        yield Problem("url", f"{text} send it in `headers` as Authorization if the server takes it there")


def _has_secret(url: str) -> bool:
    """True if the query of `url` has a parameter that is named like a secret."""
    parts = split_url(url)
    parameters = parse_qsl(parts.query, keep_blank_values=True) if parts is not None else ()
    return any(_SECRET_PARAMETER.fullmatch(name) for name, _ in parameters)


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
    if upstream.transport in ("http", "sse", "ws"):
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
    parts = split_url(url)
    if parts is None:
        yield problem
        return
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or not is_plain(url):
        yield problem
    elif not begins_later and upstream.transport != "auto" and (upstream.transport == "ws") != (parts.scheme[0] == "w"):
        schemes = "ws:// or wss://" if upstream.transport == "ws" else "http:// or https://"
        yield Problem("transport", f'"{upstream.transport}" needs a `url` that begins with {schemes}')
    if upstream.speaks_websocket and not HAS_WEBSOCKET:
        yield Problem("url", f"is one of a WebSocket, which {needs_extra('ws')}")
    if parts.username is not None or parts.password is not None:
        yield Problem("url", "holds a user name or password; send it in `headers` as Authorization")
    for name, secret in upstream.headers.items():
        if not _TOKEN.fullmatch(name):
            yield Problem(("headers", name), "is no name for a header: letters, digits and dashes")
        value = blank_references(secret.reveal())
        if not _HEADER_VALUE.fullmatch(value) or value != value.strip():
            text = "is no value for a header: printable ASCII without line breaks or outer spaces"
            yield Problem(("headers", name), text)
