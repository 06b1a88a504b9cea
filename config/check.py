"""What the types of `schema` cannot say about a configuration. Pure; the first thing found is raised as `Problem`.

Values may hold secrets that variables brought in, so problems describe what is expected and show no value of `args`,
`env`, `url` or `headers` (SEC-61).
"""

import math
import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from config.names import is_server_id, is_usable, suggest_id
from config.schema import HubConfig, UpstreamConfig
from config.source import Keys, Problem

MIN_BUDGET: Final = 32
MAX_BUDGET: Final = 64
"""Tool names of more than 64 characters are refused by several hosts."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_FILE_URI = re.compile(r"file://(localhost)?/[!-~]*")
_ENV_NAME = re.compile(r"[^=\x00]+")


def check_hub(config: HubConfig) -> None:
    """Raise the first problem of the hub's own settings."""
    host, _ = split_listen(config.listen)
    if config.auth == "none" and not is_loopback(host):
        raise Problem(("auth",), f'"none" is allowed on loopback only, and listen is {config.listen}; write "token"')
    if not is_loopback(host) and not config.behind_tls_proxy:
        text = f"{config.listen} can be reached from other machines, and hubd has no TLS: take a loopback address,"
        raise Problem(("listen",), f"{text} or set behind_tls_proxy = true if a proxy you trust ends TLS before it")
    if not MIN_BUDGET <= config.name_budget <= MAX_BUDGET:
        raise Problem(
            ("name_budget",), f"must be from {MIN_BUDGET} to {MAX_BUDGET} characters, not {config.name_budget}"
        )
    if config.page_size < 0:
        raise Problem(("page_size",), "must be a number of entries, or 0 for everything in one page")
    for name in ("startup_grace_s", "drain_s", "park_ttl_s", "park_total_s", "synthetic_progress_s"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value >= 0):
            raise Problem((name,), "must be a number of seconds, 0 or more")
    if config.park_total_s < config.park_ttl_s:
        text = f"is less than one question may wait (park_ttl_s, {config.park_ttl_s:g}); raise it, or lower that"
        raise Problem(("park_total_s",), text)


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        Problem: it is neither a name nor an address with a port.
    """
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = bare and not re.search(r"[\s/@\[\]]", bare) and (":" not in bare or bare != host)
    if not (colon and sound and port.isascii() and port.isdigit() and int(port) < 65536):
        raise Problem(("listen",), f'expected HOST:PORT such as "127.0.0.1:8765" or "[::1]:8765", not "{listen}"')
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_names(upstreams: Iterable[tuple[str, Keys, UpstreamConfig]]) -> list[tuple[Keys, str]]:
    """Raise the first problem of names, prefixes and aliases among all upstreams; return what deserves a warning."""
    warnings: list[tuple[Keys, str]] = []
    taken: dict[str, str] = {}
    bare: str | None = None
    for name, keys, upstream in upstreams:
        claimed = {name: keys, **dict.fromkeys(upstream.aliases, (*keys, "aliases"))}
        if upstream.prefix:
            claimed[upstream.prefix] = (*keys, "prefix")
        for id, where in claimed.items():
            warnings += [(where, text) for text in _check_name(id, where)]
            folded = id.lower().replace("-", "_")
            if taken.setdefault(folded, name) != name:
                text = (
                    f'"{id}" is taken: it equals, or differs only in case or dashes from, a name of "{taken[folded]}"'
                )
                raise Problem(where, text)
        if upstream.prefix == "":
            if bare is not None:
                text = f'only one upstream can have bare names, and "{bare}" has them; leave prefix out here'
                raise Problem((*keys, "prefix"), text)
            bare = name
    return warnings


def _check_name(name: str, where: Keys) -> list[str]:
    if is_server_id(name):
        return []
    rule = "lower-case words joined by single dashes, at most 16 characters"
    if not is_usable(name):
        raise Problem(where, f'"{name}" cannot name a server: use {rule}; write for instance "{suggest_id(name)}"')
    return [f'"{name}" works, but some hosts need shorter or plainer names: use {rule}, such as "{suggest_id(name)}"']


def check_upstream(keys: Keys, upstream: UpstreamConfig) -> None:
    """Raise the first problem of one upstream."""
    if (upstream.command is None) == (upstream.url is None):
        text = "an upstream has either `command` (a program to start) or `url` (a server to reach)"
        raise Problem(keys, f"{text}, {'not both' if upstream.url else 'and here is neither'}")
    if upstream.disabled:  # its variables were not looked up, so its values mean little
        return
    if upstream.url is None:
        _check_command(keys, upstream)
    else:
        _check_url(keys, upstream, upstream.url)
    _check_sharing(keys, upstream)
    for name in upstream.timeouts.__struct_fields__:
        _check_seconds((*keys, "timeouts", name), getattr(upstream.timeouts, name))
    for name, value in upstream.tool_timeouts.items():
        _check_seconds((*keys, "tool_timeouts", name), value)
    for name in ("idle_stop_s", "ping_s"):
        if not (math.isfinite(value := getattr(upstream, name)) and value >= 0):
            raise Problem((*keys, name), "must be a number of seconds, 0 for never")
    if upstream.restart.attempts < 0:
        raise Problem((*keys, "restart", "attempts"), "must be a number of attempts, 0 for no limit")


def _check_command(keys: Keys, upstream: UpstreamConfig) -> None:
    if not upstream.command:
        raise Problem((*keys, "command"), "is empty; name the program to start")
    if upstream.headers:
        raise Problem((*keys, "headers"), "belong to a `url`; a program takes `args` and `env`")
    if upstream.transport in ("http", "sse"):
        raise Problem((*keys, "transport"), f'"{upstream.transport}" needs a `url`; leave it out beside `command`')
    for name, value in (("command", upstream.command), ("cwd", upstream.cwd or ""), *_each("args", upstream.args)):
        if "\0" in value:
            raise Problem((*keys, name), "holds a NUL character, which no program can be given")
    for name, secret in upstream.env.items():
        if not _ENV_NAME.fullmatch(name):
            raise Problem((*keys, "env", name), "is no name for a variable: it is empty or holds `=`")
        if "\0" in secret.reveal():
            raise Problem((*keys, "env", name), "holds a NUL character, which no program can be given")


def _check_sharing(keys: Keys, upstream: UpstreamConfig) -> None:
    """What belongs to sessions (bridging.md 5.2, 6)."""
    mode, roots = upstream.session_mode, upstream.roots
    if isinstance(roots, tuple):
        if not roots:
            raise Problem((*keys, "roots"), 'is an empty list; write "none" for no roots, or file:// URIs')
        if not all(_FILE_URI.fullmatch(uri) for uri in roots):
            raise Problem((*keys, "roots"), 'expected URIs of folders, such as "file:///home/me/project"')
    elif roots == "host":
        if mode in ("singleton", "shared"):
            text = f'"host" gives each host a session of its own, and session_mode = "{mode}" allows only one;'
            raise Problem((*keys, "roots"), f"{text} take one of them out, or list the roots")
        if upstream.client_features == "none":
            text = '"host" has no effect with client_features = "none", which says that hosts have no roots'
            raise Problem((*keys, "roots"), f"{text}; take one of them out")


def _each(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, value) for value in values]


def _check_url(keys: Keys, upstream: UpstreamConfig, url: str) -> None:
    for name in ("args", "env", "cwd"):
        if getattr(upstream, name):
            raise Problem((*keys, name), "belongs to a `command`; a server reached by URL takes `headers`")
    if upstream.transport == "stdio":
        raise Problem((*keys, "transport"), '"stdio" needs a `command`; leave it out beside `url`')
    problem = Problem((*keys, "url"), 'expected an address such as "https://example.com/mcp"')
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise problem from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not url.isascii()
        or re.search(r"[\s\x00-\x20]", url)
    ):
        raise problem
    if parts.username is not None or parts.password is not None:
        raise Problem((*keys, "url"), "holds a user name or password; send it in `headers` as Authorization")
    for name, secret in upstream.headers.items():
        if not _TOKEN.fullmatch(name):
            raise Problem((*keys, "headers", name), "is no name for a header: letters, digits and dashes")
        value = secret.reveal()
        if not _HEADER_VALUE.fullmatch(value) or value != value.strip() or not value.isascii():
            text = "is no value for a header: printable ASCII without line breaks or outer spaces"
            raise Problem((*keys, "headers", name), text)


def _check_seconds(keys: Keys, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise Problem(keys, "must be a number of seconds above 0")
