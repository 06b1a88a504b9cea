"""`file:` URIs in the one form in which rules compare them. Pure.

Two spellings may mean one file: escapes, dot segments, doubled slashes, another case of the scheme, an empty host or
`localhost`. What cannot be brought into one form, or hides a slash or NUL, has none.
"""

import re
from posixpath import normpath
from urllib.parse import unquote_to_bytes

_FILE = re.compile(r"file:", re.IGNORECASE)
_HOST = re.compile(r"//(?:localhost)?(?=/)", re.IGNORECASE)
_HIDDEN = re.compile(r"%(?:2f|5c|00)|[\x00\\]", re.IGNORECASE)
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TAIL = re.compile(r"[?#].*", re.DOTALL)


def is_file_uri(uri: str) -> bool:
    """True if it is one, in whatever spelling."""
    return _FILE.match(uri) is not None


def normal_form(uri: str) -> str | None:
    """The form of a `file:` URI without escapes and dot segments; None: it has none that can be trusted."""
    rest = uri[len("file:") :]
    if rest.startswith("//"):
        if (host := _HOST.match(rest)) is None:
            return None
        rest = rest[host.end() :]
    path, tail = _TAIL.sub("", rest), (_TAIL.findall(rest) or [""])[0]
    if _HIDDEN.search(path) or _HALF_ESCAPE.search(path):
        return None
    try:
        plain = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None
    if not plain.startswith("/") or _HIDDEN.search(plain):  # escaped twice
        return None
    ends = "/" if plain.endswith(("/", "/.", "/..")) else ""
    folder = "/" + normpath(plain).lstrip("/")
    return f"file://{folder}{'' if folder.endswith('/') else ends}{tail}"
