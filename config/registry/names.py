"""Names of servers in a registry, their versions, and where an upstream comes from. Pure."""

import re
from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

from config.names import MAX_ID, RESERVED, short_id

MAX_NAME: Final = 200
MAX_VERSION: Final = 255
_NAME = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+!-]*")
_RANGE = re.compile(r"[\^~<>=*| ,]|(?:^|\.)[xX](?:\.|$)")
_SOURCE = re.compile(r"(?P<registry>[a-z][a-z0-9-]{0,31}):(?P<name>[^@:]+)@(?P<version>[^@]+)")
_SEMANTIC = re.compile(
    r"(?P<major>\d{1,18})\.(?P<minor>\d{1,18})\.(?P<patch>\d{1,18})(?:-(?P<before>[0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]*)?"
)
_USUAL: Final = frozenset({"mcp", "server", "api", "app", "main"})
LATEST: Final = "latest"


class RegistrySource(NamedTuple):
    """The entry of a registry that an upstream was made of."""

    registry: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.registry}:{self.name}@{self.version}"


def is_server_name(text: str) -> bool:
    """True if a server can be called so in a registry."""
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None and not set(text.split("/")) & {".", ".."}


def is_version(text: str) -> bool:
    """True if it is one version, and no range or name of one that moves."""
    return len(text) <= MAX_VERSION and _VERSION.fullmatch(text) is not None and not is_range(text) and text != LATEST


def is_range(text: str) -> bool:
    """True if it stands for several versions."""
    return _RANGE.search(text) is not None


def is_older(one: str, other: str) -> bool:
    """True if `one` is for certain an older version than `other`: both are of the form of semver.org."""
    found = [_SEMANTIC.fullmatch(text) for text in (one, other)]
    if found[0] is None or found[1] is None:
        return False
    return _rank(found[0]) < _rank(found[1])


def _rank(version: re.Match[str]) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
    """The key by which versions are compared; a release comes after what led to it."""
    numbers = tuple(int(version[part]) for part in ("major", "minor", "patch"))
    before = version["before"] or ""
    words = tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in before.split(".") if before)
    return numbers, not before, words


def split(text: str) -> tuple[str, str]:
    """Name and version of `NAME[@VERSION]`; the version is `latest` if none is said.

    Raises:
        ValueError: it is neither; the text says why.
    """
    name, at, version = text.partition("@")
    if not is_server_name(name):
        raise ValueError(f'"{name}" is no name in a registry: those are like io.github.someone/something')
    if at and version != LATEST and is_range(version):
        raise ValueError(f'"{version}" stands for several versions; name one, or none for the newest')
    if at and version != LATEST and not is_version(version):
        raise ValueError(f'"{version}" is no version')
    return name, version if at else LATEST


def source_of(text: str) -> RegistrySource | None:
    """The source in the setting `source`; None if it is none."""
    found = _SOURCE.fullmatch(text)
    if found is None or not is_server_name(found["name"]) or not is_version(found["version"]):
        return None
    return RegistrySource(found["registry"], found["name"], found["version"])


def id_of(name: str, taken: Iterable[str] = ()) -> str:
    """A server id for a name in a registry: `io.github.example/filesystem` -> "filesystem". One of `taken` gets a
    number."""
    space, _, last = name.partition("/")
    words = [word for word in re.split(r"[^A-Za-z0-9]+", last) if word and word.lower() not in _USUAL]
    found = short_id("-".join(words)) if words else short_id(space.rpartition(".")[2])
    others = {each.lower() for each in taken} | {RESERVED}
    if found not in others:
        return found
    return next(each for number in count(2) if (each := f"{found[: MAX_ID - 5]}-{number}") not in others)
