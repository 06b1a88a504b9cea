"""URIs as text: their scheme, and the hub's tag on them (see `hub.catalog.uri_claims`). Pure."""

import re
from collections.abc import Mapping
from typing import Final

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_TAG = re.compile(r"hub\.([a-z0-9-]+)\+", re.I)
_TAGS = re.compile(rf"(?:{_TAG.pattern})+", re.I)
_UI_TAG = re.compile(r"ui://([a-z0-9-]+)~", re.I)
_UI_TAG_LIKE = re.compile(r"ui://[a-z0-9-]*[~{]", re.I)

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


def without_tags(uri: str) -> str:
    """`uri` without `hub.` tags, of whatever servers, such as a hub behind this one gives."""
    return uri[match.end() :] if (match := _TAGS.match(uri)) else uri


def looks_tagged(uri: str) -> bool:
    """True if `uri` begins like a `hub.` tag, be it of a server that exists or not."""
    return _TAG.match(uri) is not None


def looks_ui_tagged(uri: str) -> bool:
    """True if a `ui` URI begins like a tagged one, or as a template may expand to such a beginning."""
    return _UI_TAG_LIKE.match(uri) is not None
