"""server.json of schema 2025-12-11, as far as it matters for running a server, and the answers of a registry's API of
version 2025-12-01 around it. Read with bounds. Pure.

    /v0.1/servers?search=&version=latest&limit=&cursor=     a page
    /v0.1/servers/NAME/versions                             a page, newest first
    /v0.1/servers/NAME/versions/VERSION                     one server; "latest" is a version, too

What is not known is ignored, as the schema allows; what has another form than the schema says makes the whole
unreadable. `null` counts as absent, since registries send it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Struct

from config.server_names import free_id, short_id

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
    ranks = [_rank(found) for text in (one, other) if (found := _SEMANTIC.fullmatch(text))]
    return len(ranks) == 2 and ranks[0] < ranks[1]


def _rank(version: re.Match[str]) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
    """The key by which versions are compared; a release comes after what led to it."""
    numbers = tuple(int(version[part]) for part in ("major", "minor", "patch"))
    before = version["before"] or ""
    words = tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in before.split(".") if before)
    return numbers, not before, words


def split(text: str) -> tuple[str, str]:
    """Name and version of `NAME[@VERSION]`; the version is `latest` if none is said.
    Raises: ValueError, if it is neither; the text says why."""
    name, at, version = text.partition("@")
    if not is_server_name(name):
        raise ValueError(f'"{name}" is no name in a registry: those are like io.github.someone/something')
    if not at or version == LATEST:
        return name, LATEST
    if is_range(version):
        raise ValueError(f'"{version}" stands for several versions; name one, or none for the newest')
    if not is_version(version):
        raise ValueError(f'"{version}" is no version')
    return name, version


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
    return free_id(short_id("-".join(words) if words else space.rpartition(".")[2]), taken)


OFFICIAL_META: Final = "io.modelcontextprotocol.registry/official"
MAX_CURSOR: Final = 2048
MAX_ON_PAGE: Final = 1000
PAGE: Final = 100
Text = Annotated[str, Meta(max_length=8192)]
Word = Annotated[str, Meta(max_length=512)]
MAX_DEPTH = 32


class Unreadable(ValueError):
    """It is no server.json. The text says where, and shows nothing of it."""


class Input(Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that the publisher fixes, or that somebody has to say."""

    description: Text = ""
    is_required: bool = False
    is_secret: bool = False
    format: Word = "string"
    value: Text | None = None
    """Fixed by the publisher; may hold `{names}` of variables."""
    default: Text | None = None
    placeholder: Text = ""
    choices: Annotated[tuple[Word, ...], Meta(max_length=256)] = ()


Variables = Annotated[dict[Word, Input], Meta(max_length=64)]


class ArgumentTemplate(Input, frozen=True, kw_only=True, rename="camel"):
    """An input whose fixed value may have variables in it."""

    name: Word = ""
    variables: Variables = {}


class KeyValue(ArgumentTemplate, frozen=True, kw_only=True, rename="camel"):
    """A variable of the environment, or a header."""

    name: Word


class Argument(ArgumentTemplate, frozen=True, kw_only=True, rename="camel"):
    """An argument: a value, or `--name=value`."""

    type: Literal["positional", "named"]
    value_hint: Word = ""
    is_repeated: bool = False


Arguments = Annotated[tuple[Argument, ...], Meta(max_length=128)]
KeyValues = Annotated[tuple[KeyValue, ...], Meta(max_length=128)]


class Transport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The way in which a server is spoken to; of a remote one also its address."""

    type: Word
    url: Text = ""
    headers: KeyValues = ()
    variables: Variables = {}


class Package(Struct, frozen=True, kw_only=True, rename="camel"):
    """A package that holds the server."""

    registry_type: Word
    identifier: Text
    transport: Transport
    version: Word = ""
    registry_base_url: Text = ""
    runtime_hint: Word = ""
    runtime_arguments: Arguments = ()
    package_arguments: Arguments = ()
    environment_variables: KeyValues = ()
    file_sha256: Word = ""
    """That of a bundle, which `identifier` is the address of."""


class ServerJson(Struct, frozen=True, kw_only=True, rename="camel"):
    """The words of a publisher about one version of a server."""

    name: Word
    version: Word
    description: Text = ""
    title: Text = ""
    website_url: Text = ""
    packages: Annotated[tuple[Package, ...], Meta(max_length=32)] = ()
    remotes: Annotated[tuple[Transport, ...], Meta(max_length=32)] = ()


def read_server(value: Any) -> ServerJson:
    """The server that an object describes. Raises: Unreadable."""
    try:
        server = msgspec.convert(without_nulls(value), ServerJson)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unreadable(f"it is no server.json: {error}") from None
    if not is_server_name(server.name):
        raise Unreadable("its name is none that a server can have")
    if not is_version(server.version):
        raise Unreadable("it names no single version")
    return server


def without_nulls(value: Any, depth: int = 0) -> Any:
    """`value` without members that are null; what is nested too deeply is null."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key: without_nulls(each, depth + 1) for key, each in value.items() if each is not None}
    return [without_nulls(each, depth + 1) for each in value] if isinstance(value, list) else value


def one_line(text: str, length: int = 200) -> str:
    """A text of a publisher on one line, and no longer than somebody reads. Its characters are not made safe."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


class Listed(Struct, frozen=True, kw_only=True):
    """A version of a server, and what its registry says of it."""

    server: ServerJson
    status: str = "active"
    """Or "deprecated", "deleted"."""
    message: str = ""
    """The reason why it has that status."""
    published: str = ""
    """The day, as 2026-03-02; "": it is not said."""
    is_latest: bool = False


class RegistryPage(Struct, frozen=True):
    """One page of servers."""

    servers: tuple[Listed, ...]
    unreadable: int
    """Entries that could not be read."""
    next_cursor: str
    """"": it is the last page."""


def list_path(search: str, cursor: str = "") -> str:
    """The path that lists servers by a part of their names."""
    fields = {"search": search, "version": "latest", "limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
    return f"/v0.1/servers?{urlencode(fields)}"


def versions_path(name: str, version: str = "") -> str:
    """The path of all versions of a server, or of one; deleted ones are found as well, so that it can be said."""
    one = f"/{quote(version, safe='')}" if version else ""
    return f"/v0.1/servers/{quote(name, safe='')}/versions{one}?include_deleted=true"


def read_listed(value: Any) -> Listed:
    """One server of an answer. Raises: Unreadable."""
    if not isinstance(value, dict):
        raise Unreadable("it is no entry of a registry")
    said = _object(_object(value.get("_meta")).get(OFFICIAL_META))
    return Listed(
        server=read_server(value.get("server")),
        status=_text(said.get("status")) or "active",
        message=_text(said.get("statusMessage"))[:500],
        published=_text(said.get("publishedAt"))[:10],
        is_latest=said.get("isLatest") is True,
    )


def read_page(value: Mapping[str, Any]) -> RegistryPage:
    """A page of servers, without those that cannot be read. Raises: Unreadable."""
    if "servers" not in value:
        raise Unreadable("it has no servers")
    entries = [] if value["servers"] is None else value["servers"]  # null is an empty list, as some write it
    if not isinstance(entries, list) or len(entries) > MAX_ON_PAGE:
        raise Unreadable("it is no list of servers")
    servers = []
    for entry in entries:
        try:
            servers.append(read_listed(entry))
        except Unreadable:
            continue
    cursor = _text(_object(value.get("metadata")).get("nextCursor"))
    return RegistryPage(tuple(servers), len(entries) - len(servers), cursor if len(cursor) <= MAX_CURSOR else "")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
