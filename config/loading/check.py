"""Checks of a configuration beyond the types of `schema`: the bounds declared there, and how settings fit together.

Pure; everything found is yielded as `Problem`. Keys are those of the struct: of the hub, or of one upstream. Values may
hold secrets that variables brought in, so problems describe what is expected and show no value of a text.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from config.environment.passing import mistakes
from config.loading.check_access import problems_of_access, warnings_of_access
from config.loading.check_fleet import problems_of_sharing, warnings_of_sharing
from config.loading.check_oauth import problems_of_oauth, problems_of_oauth_in_hub
from config.loading.check_profiles import problems_of_profiles, problems_of_renames
from config.loading.safe_reading import Keys, Problem
from config.name_globs import problem_of
from config.names import RULE, is_reserved, is_server_id, is_usable, suggest_id
from config.references import blank_references, references_in
from config.setting import Secret, Setting, declarations
from config.settings import HubConfig, UpstreamConfig
from config.tables.registries import flaws_of

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
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
        yield from problems_of_access(config, is_open=not is_loopback(host))
    yield from problems_of_bounds(config)
    yield from problems_of_oauth_in_hub(config.oauth)
    yield from problems_of_profiles(config.profiles, config.name_budget)
    if config.park_total_s < config.park_ttl_s:
        text = f"is less than one question may wait (park_ttl_s, {config.park_ttl_s:g}); raise it, or lower that"
        yield Problem(("park_total_s",), text)
    yield from problems_of_sharing(config)
    yield from (Problem(("registries", *keys), text) for keys, text in flaws_of(config.registries))


def problems_of_bounds(values: Struct, above: Keys = ()) -> Iterator[Problem]:
    """Numbers beyond the bounds that their settings declare, in a struct of `schema` and in its tables."""
    for name, declared in declarations(type(values)).items():
        value, keys = getattr(values, declared.attribute), (*above, name)
        if isinstance(value, Struct):
            yield from problems_of_bounds(value, keys)
        elif declared.named is not None:
            for key, each in value.items():
                yield from problems_of_bounds(each, (*keys, key))
        elif declared.each is not None:
            for key, each in value.items():
                if not _is_within_bounds(each, declared.each):
                    yield Problem((*keys, key), _expect(each, declared.each))
        elif not _is_within_bounds(value, declared.setting):
            yield Problem(keys, _expect(value, declared.setting))


MAX_WHOLE: Final = (1 << 63) - 1
"""The largest whole number of any setting: programs that read it as JSON know no larger ones."""


def _is_within_bounds(value: Any, setting: Setting) -> bool:
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        return False
    if value is None or (setting.min is None and setting.above is None):
        return True
    is_low = value < setting.min if setting.above is None else value <= setting.above
    is_high = setting.max is not None and value > setting.max
    return math.isfinite(value) and not is_low and not is_high


def _expect(value: float, setting: Setting) -> str:
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        return f"is too large a number: {MAX_WHOLE} is the most for any setting"
    low, high, unit = setting.min, setting.max, setting.unit
    if low is not None and high is not None:
        between = f"{_size(low)} to {_size(high)}, in" if unit == "bytes" else f"{low} to {high}"
        return f"must be from {between} {unit}, not {value}"
    if setting.above is not None:
        return f"must be a number of {unit} above {setting.above}"
    return f"must be a number of {unit}, " + (f"0 for {setting.zero}" if setting.zero else f"{low} or more")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} TiB"


def warnings_of_hub(config: HubConfig) -> Iterator[Problem]:
    """Warnings about the hub's own settings."""
    yield from warnings_of_sharing(config)
    yield from warnings_of_access(config)


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        Problem: it is neither a name nor an address with a port.
    """
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = bare and not re.search(r"[\s/@\[\]]", bare) and (":" not in bare or bare != host)
    if not (colon and sound and port.isascii() and port.isdigit() and int(port) < 65536):
        text = f'expected HOST:PORT such as "127.0.0.1:8765" or "[::1]:8765", not "{listen}"'
        raise Problem(("listen",), f"{text}; variables are not replaced here" if "${" in listen else text)
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def problems_of_names(upstreams: Mapping[str, UpstreamConfig]) -> Iterator[tuple[str, Problem]]:
    """Problems of names, prefixes and aliases among all upstreams, each with the name of the upstream."""
    taken: dict[str, str] = {}
    bare: str | None = None
    for name, upstream in upstreams.items():
        for id, where in _claims_of(name, upstream):
            if not is_usable(id):
                text = f'"{id}" cannot name a server: use {RULE}; write for instance "{suggest_id(id)}"'
                yield name, Problem(where, text)
            folded = id.lower().replace("-", "_")
            if (other := taken.setdefault(folded, name)) != name:
                text = f'"{id}" is taken: it equals, or differs only in case or dashes from, a name of "{other}"'
                yield name, Problem(where, text)
        if upstream.prefix == "":
            if bare is not None:
                text = f'only one upstream can have bare names, and "{bare}" has them; leave prefix out here'
                yield name, Problem(("prefix",), text)
            bare = bare or name


def reserved_names(upstreams: Mapping[str, UpstreamConfig]) -> Iterator[tuple[str, Problem]]:
    """Names of upstreams that are the hub's own; these upstreams are left out, each with the name of the upstream."""
    for name, upstream in upstreams.items():
        for id, where in _claims_of(name, upstream):
            if is_reserved(id):
                text = f'"{id}" is the name of the hub itself, so this server is left out; give it another name'
                yield name, Problem(where, text)


def warnings_of_names(upstreams: Mapping[str, UpstreamConfig]) -> Iterator[tuple[str, Problem]]:
    """Warnings about names that work and could be better, each with the name of the upstream."""
    for name, upstream in upstreams.items():
        for id, where in _claims_of(name, upstream):
            if not is_server_id(id) and is_usable(id):
                text = f'"{id}" works, but some hosts need shorter or plainer names: use {RULE}'
                yield name, Problem(where, f'{text}, such as "{suggest_id(id)}"')


def _claims_of(name: str, upstream: UpstreamConfig) -> Iterator[tuple[str, Keys]]:
    """The names an upstream is known by, and the setting that says so."""
    yield name, ()
    yield from ((alias, ("aliases",)) for alias in upstream.aliases)
    if upstream.prefix and upstream.prefix != name:
        yield upstream.prefix, ("prefix",)


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
        yield Problem(("tools",), why)
    yield from problems_of_renames(upstream)
    yield from problems_of_bounds(upstream)


def warnings_of_upstream(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Warnings about one upstream."""
    program, *rest = (upstream.command or "").split() or [""]
    if rest and "/" not in program and not upstream.disabled:
        text = f'is started as one program whose name holds spaces; if these are arguments, write command = "{program}"'
        yield Problem(("command",), f"{text} and args = [...]")


def _check_text(values: Struct, above: Keys = ()) -> Iterator[Problem]:
    """Half a character in JSON (`\\ud800`), or bytes of a variable or of a directory's name, which are no text."""
    for name, declared in declarations(type(values)).items():
        value = getattr(values, declared.attribute)
        if isinstance(value, Struct):
            yield from _check_text(value, (*above, name))
        elif isinstance(value, dict):
            wrong = (key for key, each in value.items() if not _is_text(f"{key}{_reveal(each)}"))
            yield from (Problem((*above, name, key), _NO_TEXT) for key in wrong)
        else:
            texts = map(_reveal, value if isinstance(value, tuple) else (value,))
            yield from (Problem((*above, name), _NO_TEXT) for text in texts if not _is_text(text))


def _reveal(value: object) -> str:
    return value.reveal() if isinstance(value, Secret) else value if isinstance(value, str) else ""


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_command(upstream: UpstreamConfig, command: str) -> Iterator[Problem]:
    if not command:
        yield Problem(("command",), "is empty; name the program to start")
    yield from _check_needs(upstream, "command")
    if upstream.transport in ("http", "sse"):
        yield Problem(("transport",), f'"{upstream.transport}" needs a `url`; leave it out beside `command`')
    for name, value in (("command", command), ("cwd", upstream.cwd or ""), *_each("args", upstream.args)):
        if "\0" in blank_references(value):
            yield Problem((name,), "holds a NUL character, which no program can be given")
    for name, secret in upstream.env.items():
        if not _ENV_NAME.fullmatch(name):
            yield Problem(("env", name), "is no name for a variable: it is empty or holds `=`")
        if "\0" in blank_references(secret.reveal()):
            yield Problem(("env", name), "holds a NUL character, which no program can be given")
    yield from (Problem(("pass",), mistake) for mistake in mistakes(upstream.pass_))


def _check_sharing(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Settings of sessions that contradict each other."""
    mode, roots = upstream.session_mode, upstream.roots
    if isinstance(roots, tuple):
        if not roots:
            yield Problem(("roots",), 'is an empty list; write "none" for no roots, or file:// URIs')
        if not all(_FILE_URI.fullmatch(uri) for uri in roots):
            yield Problem(("roots",), 'expected URIs of folders, such as "file:///home/me/project"')
    elif roots == "host":
        if mode in ("singleton", "shared"):
            text = f'"host" gives each host a session of its own, and session_mode = "{mode}" allows only one;'
            yield Problem(("roots",), f"{text} take one of them out, or list the roots")
        if upstream.client_features == "none":
            text = '"host" has no effect with client_features = "none", which says that hosts have no roots'
            yield Problem(("roots",), f"{text}; take one of them out")


def _each(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, value) for value in values]


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
        yield Problem(("transport",), '"stdio" needs a `command`; leave it out beside `url`')
    problem = Problem(("url",), 'expected an address such as "https://example.com/mcp"')
    begins_later = url.startswith("\0") and references_in(url)  # what it is then is checked when it is known
    url = "https://x/" if begins_later else blank_references(url)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        yield problem
        return
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not url.isascii()
        or re.search(r"[\s\x00-\x20]", url)
    ):
        yield problem
    if parts.username is not None or parts.password is not None:
        yield Problem(("url",), "holds a user name or password; send it in `headers` as Authorization")
    for name, secret in upstream.headers.items():
        if not _TOKEN.fullmatch(name):
            yield Problem(("headers", name), "is no name for a header: letters, digits and dashes")
        value = blank_references(secret.reveal())
        if not _HEADER_VALUE.fullmatch(value) or value != value.strip() or not value.isascii():
            text = "is no value for a header: printable ASCII without line breaks or outer spaces"
            yield Problem(("headers", name), text)
