"""Detection of secrets in the settings of MCP servers, so that nothing takes or shows them unasked. Pure.

Detection guesses, and rather once too often: by the name (`GITHUB_TOKEN`, `--api-key`, `Authorization`), or by the look
of the value (`ghp_...`, a long word of mixed letters and digits). A reference to a variable is no secret. The log of a
running upstream is redacted by `upstreams.redact`, which knows the values themselves.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, unquote_plus

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
_UNCLEAR = re.compile(r"(?=.*[A-Za-z]).{8,}", re.S)
_CREDENTIALS = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_REFERENCE = re.compile(r"\$\{[^{}]*\}|\$\{\{[^{}]*\}\}|\{env:[^{}]*\}|\$[A-Za-z_]\w*")
_QUERY = re.compile(r"[?&]([^=&#]+)=([^&#]+)")
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_NAMED = re.compile(
    r"(?P<name>(?:-{1,2}[A-Za-z][\w.-]*|[A-Z_][A-Z0-9_]*)=|[A-Za-z][\w-]*:(?!//)\s*)(?P<value>.*)", re.S
)
"""`--token=x`, `TOKEN=x`, and a header such as `Authorization: x`."""
_NAMES = re.compile(r".*_env_var|env_vars|env_http_headers")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def looks_secret(name: str, value: str) -> bool:
    """True if `value`, which stands under `name`, looks like a secret."""
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


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Positions of arguments that hold a secret, and where in the argument it starts, behind a name that it has."""
    option = ""
    for at, word in enumerate(arguments):
        named = innermost_name(word)
        if named and looks_secret(named["name"].strip("-=: "), named["value"]):
            yield at, named.start("value")
        elif not word.startswith("-") and looks_secret(option, word):
            yield at, 0
        option = word.lstrip("-") if _OPTION.fullmatch(word) else ""


def secrets_of_url(url: str) -> Iterator[str]:
    """The values in a URL's query, and the parts of its path, that look like secrets, as it has them and decoded;
    longer values, too, since nobody can tell what they are: a variable may have given them."""
    path, _, query = url.partition("#")[0].partition("?")
    values = [each.partition("=")[::2] if "=" in each else ("key", each) for each in query.split("&")]
    found = [value for name, value in values if looks_secret(name, value) or _UNCLEAR.fullmatch(value)]
    found += (part for part in path.split("/")[3:] if looks_secret("", part))
    for each in found:
        yield from (each, unquote_plus(each), quote(each, safe="%+"))


def innermost_name(word: str) -> re.Match[str] | None:
    """The innermost name and its value, since an option's value may have a name itself: `--header=Authorization: x`."""
    named = _NAMED.fullmatch(word)
    if named and named["name"].startswith("-"):
        return _NAMED.fullmatch(word, named.start("value")) or named
    return named


def secrets_in(document: Any, name: str = "") -> Iterator[str]:
    """All texts in a document that look like secrets; in lists of words, those behind an option, too."""
    if isinstance(document, dict):
        for key, value in document.items():
            if not _holds_names(str(key), value):
                yield from secrets_in(value, str(key))
    elif isinstance(document, list):
        words = [word if isinstance(word, str) else "" for word in document]
        yield from (words[at][start:] for at, start in secret_arguments(words))
        for value in document:
            yield from secrets_in(value, "" if isinstance(value, str) else name)
    elif isinstance(document, str) and looks_secret(name, document):
        yield document


def _holds_names(key: str, value: Any) -> bool:
    """True if these are the names of variables, as Codex has them: `bearer_token_env_var`, `env_http_headers`."""
    texts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    named = _NAMES.fullmatch(key) is not None
    return named and all(isinstance(one, str) and _VARIABLE.fullmatch(one) and not _KNOWN.search(one) for one in texts)
