"""URIs as text: their scheme, the hub's tag on them, and which of them a template may expand to. See
`hub.catalog.uri_claims`.
"""

import re
from collections.abc import Mapping
from typing import Final

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_TAG = re.compile(r"hub\.([a-z0-9-]+)\+", re.I)
_UI_TAG = re.compile(r"ui://([a-z0-9-]+)~", re.I)
_UI_TAG_LIKE = re.compile(r"ui://[a-z0-9-]*[~{]", re.I)
_EXPRESSION = re.compile(r"\{([^{}]*)\}")

UI: Final = "ui://"


def scheme_of(uri: str) -> str:
    """The scheme in lower case; "" for text without one."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else ""


def tag(sid: str, uri: str) -> str:
    """`uri` marked as belonging to the server `sid`."""
    return f"{UI}{sid}~{uri[len(UI) :]}" if uri.startswith(UI) else f"hub.{sid}+{uri}"


def untag(uri: str, known: Mapping[str, str]) -> tuple[str, str] | None:
    """Undo `tag`: (what `known` has for the server id, original); None for a URI without a tag of a known server."""
    if (match := _UI_TAG.match(uri)) and (upstream := known.get(match[1].lower())) is not None:
        return upstream, UI + uri[match.end() :]
    if (match := _TAG.match(uri)) and (upstream := known.get(match[1].lower())) is not None:
        return upstream, uri[match.end() :]
    return None


def looks_tagged(uri: str) -> bool:
    """Whether `uri` begins like a `hub.` tag, be it of a server that exists or not."""
    return _TAG.match(uri) is not None


def looks_ui_tagged(uri: str) -> bool:
    """Whether a `ui` URI begins like a tagged one, or as a template may expand to such a beginning."""
    return _UI_TAG_LIKE.match(uri) is not None


class Template:
    """A URI template, for telling which URIs may come of it. `prefix` is its text before the first expression, `weight`
    how many of these there are, at least 1: what it costs to match.
    """

    __slots__ = ("_gaps", "prefix", "scheme", "weight")

    def __init__(self, text: str) -> None:
        parts = _EXPRESSION.split(text)
        self.prefix = parts[0]
        self.scheme = scheme_of(parts[0])
        # An expression with an operator may expand to nothing: its variables are optional (RFC 6570, 3.2).
        self._gaps = [(int(parts[i][:1] not in tuple("?&#;/.")), parts[i + 1]) for i in range(1, len(parts), 2)]
        self.weight = max(1, len(self._gaps))

    def matches(self, uri: str) -> bool:
        """Whether `uri` may be an expansion. Linear in its length: each literal is sought from the left, once."""
        if not uri.startswith(self.prefix):
            return False
        if not self._gaps:
            return len(uri) == len(self.prefix)
        at = len(self.prefix)
        for least, literal in self._gaps[:-1]:
            found = uri.find(literal, at + least)
            if found < 0:
                return False
            at = found + len(literal)
        least, literal = self._gaps[-1]
        return uri.endswith(literal) and len(uri) - len(literal) >= at + least
