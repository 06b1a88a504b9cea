"""server.json of schema 2025-12-11, as far as it matters for running a server. Read with bounds. Pure.

What it does not know is ignored, as the schema allows; what has another form than the schema says makes the whole
unreadable. `null` counts as absent, since registries send it.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from config.registry.names import is_server_name, is_version

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


class Template(Input, frozen=True, kw_only=True, rename="camel"):
    """An input whose fixed value may have variables in it."""

    variables: Annotated[dict[Word, Input], Meta(max_length=64)] = {}


class KeyValue(Template, frozen=True, kw_only=True, rename="camel"):
    """A variable of the environment, or a header."""

    name: Word


class Argument(Template, frozen=True, kw_only=True, rename="camel"):
    """An argument: a value, or `--name=value`."""

    type: Literal["positional", "named"]
    name: Word = ""
    value_hint: Word = ""
    is_repeated: bool = False


Arguments = Annotated[tuple[Argument, ...], Meta(max_length=128)]
KeyValues = Annotated[tuple[KeyValue, ...], Meta(max_length=128)]


class Transport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The way in which a server is spoken to; of a remote one also its address."""

    type: Word
    url: Text = ""
    headers: KeyValues = ()
    variables: Annotated[dict[Word, Input], Meta(max_length=64)] = {}


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


class Server(Struct, frozen=True, kw_only=True, rename="camel"):
    """The words of a publisher about one version of a server."""

    name: Word
    version: Word
    description: Text = ""
    title: Text = ""
    website_url: Text = ""
    packages: Annotated[tuple[Package, ...], Meta(max_length=32)] = ()
    remotes: Annotated[tuple[Transport, ...], Meta(max_length=32)] = ()


def read_server(value: Any) -> Server:
    """The server that an object describes.

    Raises:
        Unreadable: it is not a server.json, or holds more than any needs.
    """
    try:
        server = msgspec.convert(without_nulls(value), Server)
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
    if isinstance(value, list):
        return [without_nulls(each, depth + 1) for each in value]
    return value


def one_line(text: str, length: int = 200) -> str:
    """A text of a publisher on one line, and no longer than somebody reads. Its characters are not made safe."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length else f"{line[: length - 3]}..."
