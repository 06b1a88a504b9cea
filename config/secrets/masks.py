"""Masks: what is shown in place of a secret. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from config.secrets.detection import innermost_name, looks_secret, secret_arguments

MASK: Final = "***"
_OUR_REFERENCE = re.compile(r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*\}|\$\{(?:file|secret|credential|cmd):[^{}]*\}")
_SCHEME = re.compile(r"(?i:(?:bearer|basic|token|apikey)\s*)?")


def mask_secrets(text: str, secrets: Iterator[str] | Sequence[str]) -> str:
    """`text` without `secrets`, also as JSON writes them."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) > 3:
            text = text.replace(secret, MASK).replace(secret.replace("\\", "\\\\").replace('"', '\\"'), MASK)
    return text


def mask_secret(value: Any, *, scheme: bool = False) -> Any:
    """`***` in place of a secret; a reference stays. `scheme`: a word such as `Bearer` may stand before it."""
    rest = _OUR_REFERENCE.sub("", value) if isinstance(value, str) else None
    is_open = rest == "" or (scheme and rest is not None and _SCHEME.fullmatch(rest))
    return value if is_open else MASK


def mask_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """A program's arguments without the secrets that they hold."""
    starts = dict(secret_arguments(arguments))
    for at, word in enumerate(arguments):
        named = innermost_name(word)
        start = named.start("value") if named else 0
        if "://" in word[start:]:
            yield word[:start] + mask_url(word[start:])
        else:
            yield word[: starts[at]] + MASK if at in starts else word


def mask_url(url: str) -> str:
    """A URL without credentials, values in its query, its fragment, and parts of its path that look like secrets."""
    try:
        parts = urlsplit(url)
        netloc = f"{MASK}@{parts.netloc.rpartition('@')[2]}" if "@" in parts.netloc else parts.netloc
    except ValueError:
        return MASK
    query = re.sub(
        r"(?<![^&])db=\d{1,5}(?![^&])|=([^&]*)",
        lambda found: "=" + MASK if _OUR_REFERENCE.sub("", found[1] or "") else found[0],
        parts.query,
    )
    if parts.query and "=" not in parts.query:
        query = MASK
    path = "/".join(MASK if looks_secret("", part) else part for part in parts.path.split("/"))
    if parts.scheme == "unix":  # which `urlunsplit` does not know
        return f"unix://{netloc}{path}{'?' if query else ''}{query}"
    return urlunsplit((parts.scheme, netloc, path, query, ""))
