"""URIs in the forms in which rules compare them. Pure.

Servers understand one URI in several ways: as it is written, or as a parser of theirs reads it, which drops tabs and
line ends, resolves dot segments, takes scheme and host in any case, and escapes for what they stand for. So a URI has
two forms: as it is spelt, and as the most generous reader takes it. Rules must say the same of both. One that some
readers take for a text that cannot be told has none. The tag of a hub behind this one hides none of them.
"""

import re
from posixpath import normpath
from typing import Final
from urllib.parse import unquote_to_bytes

from config.policy.selectors import spell_uri
from hub.catalog.uri_tags import without_tags

_DROPPED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|^\s|\s$")
"""Characters that some readers leave out, or cannot write."""
_PARTS = re.compile(r"([a-z][a-z0-9+.-]*:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL | re.IGNORECASE)
_FILE_HOSTS: Final = (None, "//", "//localhost")
_PORTS: Final = {"http:": ":80", "https:": ":443", "ws:": ":80", "wss:": ":443", "ftp:": ":21"}
"""Schemes in which readers understand hosts, each with the port that need not be written."""
_NUMBER = r"(?:0|[1-9][0-9]{0,2})"
_HOST = re.compile(rf"//(?:(?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*|(?:{_NUMBER}\.){{3}}{_NUMBER})(?::[1-9][0-9]*)?")
"""Hosts that are written in one way only, but for their case."""
_HIDDEN = re.compile(r"%(?:2f|5c|00)|[\x00\\\udc80-\udcff]|^/+[a-z]\|", re.IGNORECASE)
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def forms_of(uri: str, *, is_start: bool = False) -> tuple[str, ...]:
    """The forms of a URI, one or two, and as many without the tag that a hub behind this one gives it; (): it has none
    that can be trusted. `is_start`: it is the beginning of a template, whose host may go on."""
    forms = _read(uri, is_start=is_start)
    if not forms or (bare := without_tags(uri)) == uri:
        return forms
    behind = _read(bare, is_start=is_start)
    return tuple(dict.fromkeys((*forms, *behind))) if behind else ()


def _read(uri: str, *, is_start: bool) -> tuple[str, ...]:
    if _DROPPED.search(uri):
        return ()
    spelt = spell_uri(uri)
    if (parts := _PARTS.fullmatch(uri)) is None:
        return (spelt,)
    scheme, host, path, tail = parts[1].lower(), parts[2], parts[3], parts[4]
    if scheme == "file:":
        plain = _file(host, path)
    elif scheme in _PORTS and not (is_start and not path):
        plain = _of_host((host or "").lower(), path, _PORTS[scheme])
    else:
        plain = _decode((host or "").lower()) + _resolve(_decode(path))
    if plain is None:
        return ()
    return (spelt,) if (form := f"{scheme}{plain}{tail}") == spelt else (form, spelt)


def _file(host: str | None, path: str) -> str | None:
    """A file without escapes; None: it hides a slash or NUL, or is none of this machine."""
    plain = _decode(path)
    if (host and host.lower()) not in _FILE_HOSTS or _HALF_ESCAPE.search(path) or not plain.startswith("/"):
        return None
    return None if _HIDDEN.search(path) or _HIDDEN.search(plain) else f"//{_resolve(plain)}"


def _of_host(host: str, path: str, port: str) -> str | None:
    if "\\" in path or not _HOST.fullmatch(host):
        return None
    return host.removesuffix(port) + _resolve(_decode(path) or "/")


def _decode(text: str) -> str:
    return unquote_to_bytes(text).decode(errors="surrogateescape")


def _resolve(path: str) -> str:
    """A path without dot segments and doubled slashes."""
    if not path:
        return path
    ends = "/" if path.endswith(("/", "/.", "/..")) else ""
    found = ("/" if path.startswith("/") else "") + normpath(path).lstrip("/")
    return found if found.endswith("/") else found + ends
