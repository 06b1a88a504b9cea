"""Which values in files of MCP servers look like secrets, so that nothing takes or shows them unasked. Pure.

A guess, and rather one too many: by the name (`GITHUB_TOKEN`, `--api-key`, `Authorization`), or by the look of the
value (`ghp_...`, a long word of mixed letters and digits). A reference to a variable is no secret.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

MASK: Final = "***"
_NAME = re.compile(
    r"(?:^|[_.-])(?:apikey|key|pat|token|secret|password|passwd|pwd|pass|auth|authorization|bearer|credentials?|cookie"
    r"|dsn|connection_string|private|jwt|(?:database|db|redis|mongo\w*)_ur[li])(?:$|[_.\d-])",
    re.I,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KNOWN = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{12,}|xox[abeprs]-[\w-]{8,}"
    r"|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|ntn_[A-Za-z0-9]{16,}|lin_api_[A-Za-z0-9]{16,}"
)
_LONG = re.compile(r"(?=[^\s]*[A-Za-z])(?=[^\s]*\d)[A-Za-z0-9+/_=-]{32,}")
_CREDENTIALS = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_REFERENCE = re.compile(r"\$\{[^{}]*\}|\$\{\{[^{}]*\}\}|\{env:[^{}]*\}|\$[A-Za-z_]\w*")
_QUERY = re.compile(r"[?&]([^=&#]+)=([^&#]+)")
_OPTION = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.S)


def looks_secret(name: str, value: str) -> bool:
    """Whether `value`, which stands under `name`, looks like a secret."""
    plain = _REFERENCE.sub("", value).strip()
    if plain.lower() in ("", "bearer", "basic", "token", "true", "false", "0", "1", "none"):
        return False
    if _KNOWN.search(plain) or _CREDENTIALS.search(plain):
        return True
    if any(looks_secret(key, each) for key, each in _QUERY.findall(plain)):
        return True
    if _NAME.search(_HUMP.sub("_", name)):
        return not plain.startswith(("/", "~", "./")) or "/" in name
    return bool(_LONG.fullmatch(plain)) and "/" not in plain[:1]


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Positions of arguments that hold a secret, and the name of the option that says so ("" for none)."""
    option = ""
    for at, word in enumerate(arguments):
        found = _OPTION.fullmatch(word)
        if found and found[2] is not None:
            if looks_secret(found[1].lstrip("-"), found[2]):
                yield at, found[1]
        elif not found and looks_secret(option.lstrip("-"), word):
            yield at, option
        option = found[1] if found and found[2] is None else ""


def secrets_in(document: Any, name: str = "") -> Iterator[str]:
    """All texts in a document that look like secrets; in lists of words, those behind an option, too."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from secrets_in(value, str(key))
    elif isinstance(document, list):
        words = [word if isinstance(word, str) else "" for word in document]
        yield from (words[at] for at, _ in secret_arguments(words))
        for value in document:
            yield from secrets_in(value, "" if isinstance(value, str) else name)
    elif isinstance(document, str) and looks_secret(name, document):
        yield document


def masked(text: str, secrets: Iterator[str] | Sequence[str]) -> str:
    """`text` without `secrets`, also as JSON writes them."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) > 3:
            text = text.replace(secret, MASK).replace(secret.replace("\\", "\\\\").replace('"', '\\"'), MASK)
    return text
