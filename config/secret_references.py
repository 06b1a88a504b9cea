"""References to values that are read later: `${secret:NAME}`, `${credential:NAME}`, `${cmd:ARGV}`. Pure.

In a loaded configuration such a reference stands in the text of its setting between two NUL characters, which no other
text of a server can hold: whatever else looks like a reference there, from a variable or behind `$${`, is plain text.
A reference to a secret carries the version that the secret had, so that a changed secret is a changed setting.

Values are put in their places by `config.secrets.fill_secret_values`.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from config.setting_declarations import leaves_of, texts_of
from config.settings import UpstreamConfig

KINDS: Final = ("secret", "credential", "cmd")
NUL: Final = "\0"
NAME_RULE: Final = "1 to 64 letters, digits, dots, dashes and underscores"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MARK = re.compile(r"\0(?P<kind>secret|credential|cmd):(?P<version>[0-9a-f]*):(?P<text>[^\0]*)\0")


class Malformed(ValueError):
    """A reference of one of these forms that makes no sense; the text says why, and what to write."""


class Reference(NamedTuple):
    """One reference, as `${KIND:TEXT}` writes it."""

    kind: str
    text: str
    """A name, or the words of a command."""
    version: str = ""
    """The version that a secret had when the configuration was read; "": there was none."""

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.text}}}"

    @property
    def argv(self) -> list[str]:
        """The words of a command."""
        return shlex.split(self.text)


Values = Mapping[Reference, str]
"""Values that references stand for, as far as they are known."""


def is_name(text: str) -> bool:
    """True if a secret can have this name."""
    return _NAME.fullmatch(text) is not None


def read(inner: str) -> Reference | None:
    """The reference between `${` and `}`; None if it is of another form.
    Raises: Malformed, if its name or its command makes no sense."""
    kind, colon, text = inner.partition(":")
    if not colon or kind not in KINDS:
        return None
    if kind == "cmd":
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise Malformed(f"`${{{inner}}}` is no command line: {str(error).lower()}") from None
        if not words or not words[0]:
            raise Malformed(f"`${{{inner}}}` names no program: write ${{cmd:PROGRAM ARGUMENT ...}}")
    elif not is_name(text) or text in (".", ".."):
        raise Malformed(f"`${{{inner}}}` names nothing: a name is {NAME_RULE}")
    return Reference(kind, text)


def mark_reference(reference: Reference) -> str:
    """The reference as it stands in a loaded configuration."""
    return f"{NUL}{reference.kind}:{reference.version}:{reference.text}{NUL}"


def references_in(text: str) -> list[Reference]:
    """The references in a text of a loaded configuration."""
    return [_reference(found) for found in _MARK.finditer(text)] if NUL in text else []


def fill_references(text: str, values: Values) -> str:
    """`text` with the value of each reference in its place. Raises: KeyError, if one has none."""
    return _MARK.sub(lambda found: values[_reference(found)], text) if NUL in text else text


def spell_references(text: str) -> str:
    """`text` with each reference as files write it."""
    return _MARK.sub(lambda found: str(_reference(found)), text) if NUL in text else text


def blank_references(text: str) -> str:
    """`text` with a letter in place of each reference, so that all else of it can be checked."""
    return _MARK.sub("x", text) if NUL in text else text


def _reference(found: re.Match[str]) -> Reference:
    return Reference(found["kind"], found["text"], found["version"])


def references_of(config: UpstreamConfig) -> tuple[Reference, ...]:
    """The references in a server's settings, each once."""
    texts = (text for _, declared, value in leaves_of(config) if declared.setting.expanded for text in texts_of(value))
    return tuple(dict.fromkeys(each for text in texts for each in references_in(text)))


def in_headers(config: UpstreamConfig) -> bool:
    """True if a header holds a reference: a server that refuses it may take the value of now."""
    return any(NUL in value.reveal() for value in config.headers.values())


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a document, but for keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(each)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A document with `change` made to each value in it that is neither a table nor a list."""
    if isinstance(value, dict):
        return {key: map_leaves(each, change) for key, each in value.items()}
    return [map_leaves(each, change) for each in value] if isinstance(value, list) else change(value)


def json_size(value: Any) -> int | None:
    """The bytes of a value as JSON; None: it has no such form."""
    try:
        data = msgspec.json.encode(value)
        again = msgspec.json.decode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):  # DecodeError and UnicodeError are ValueErrors
        return None
    return len(data) if again == value else None  # `nan` and `inf` become null
