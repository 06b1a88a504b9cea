"""Manifests of bundles (MCPB 0.1 to 0.4, once DXT), and the way to run what is in one. Pure.

A bundle is a program of its publisher, so its arguments are not judged, as those of package runners are. But what
starts is of its own kind and nothing else, it lies in the bundle, and the manifest's texts are data: what is in braces
is filled in once, and any other `${` stays as it is written.
"""

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from config.registry.places_to_fill import Asked, NotRunnable, Place, Slot
from config.registry.server_json import Input, Text, Unreadable, Word, without_nulls
from config.registry.ways_to_run import BY_HAND, Way, refuse_unseen, refuse_variable

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 256 << 10
PLATFORM: Final = "linux"
_VERSIONS: Final = ("0.1", "0.2", "0.3", "0.4")
_FOLDERS: Final = {"HOME": "", "DESKTOP": "/Desktop", "DOCUMENTS": "/Documents", "DOWNLOADS": "/Downloads"}
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_HARMLESS: Final = re.compile(r"PYTHON(?:UNBUFFERED|IOENCODING|UTF8|DONTWRITEBYTECODE)")
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d{1,2})?)?")
_COMPARATOR: Final = re.compile(r"(>=|<=|>|<|=|\^|~)?\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.[x*]|\.\d+)*")


class UserOption(Struct, frozen=True):
    """A value that a bundle asks its user for."""

    type: Literal["string", "number", "boolean", "directory", "file"]
    title: Text = ""
    description: Text = ""
    required: bool = False
    default: bool | float | Text | Annotated[tuple[Text, ...], Meta(max_length=64)] | None = None
    multiple: bool = False
    sensitive: bool = False
    min: float | None = None
    max: float | None = None


class Launch(Struct, frozen=True):
    """What a bundle runs; on another platform parts of that are others."""

    command: Text = ""
    args: Annotated[tuple[Text, ...], Meta(max_length=128)] | None = None
    env: Annotated[dict[Word, Text], Meta(max_length=128)] | None = None
    platform_overrides: Annotated[dict[Word, "Launch"], Meta(max_length=16)] = {}


class BundledServer(Struct, frozen=True):
    """The server in a bundle."""

    type: Word
    entry_point: Text = ""
    mcp_config: Launch = Launch()


class Compatibility(Struct, frozen=True):
    """What a bundle needs."""

    platforms: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    runtimes: Annotated[dict[Word, Word], Meta(max_length=16)] = {}


class BundleManifest(Struct, frozen=True):
    """The words of a publisher about a bundle."""

    name: Word
    version: Word
    server: BundledServer
    manifest_version: Word = ""
    dxt_version: Word = ""
    display_name: Text = ""
    description: Text = ""
    compatibility: Compatibility = Compatibility()
    user_config: Annotated[dict[Word, UserOption], Meta(max_length=64)] = {}


def read_manifest(data: bytes) -> BundleManifest:
    """The manifest in a file. Raises: Unreadable."""
    try:
        manifest = msgspec.convert(without_nulls(msgspec.json.decode(data)), BundleManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"its {MANIFEST} is none: {error}") from None
    version = manifest.manifest_version or manifest.dxt_version
    if version not in _VERSIONS:
        raise Unreadable(f"its {MANIFEST} is of a version that is not known; 0.1 to 0.4 are")
    if not all(map(_NAME.fullmatch, (manifest.name, manifest.version))):
        raise Unreadable(f"its {MANIFEST} names no bundle")
    if not all(map(_KEY.fullmatch, manifest.user_config)):
        raise Unreadable(f"its {MANIFEST} asks for something by no name that can be said")
    return manifest


def way_of_bundle(manifest: BundleManifest, folder: str, home: str, files: Container[str]) -> Way:
    """The way to run a bundle whose `files` are in `folder`. Raises: NotRunnable."""
    platforms = manifest.compatibility.platforms
    if platforms and PLATFORM not in platforms:
        raise NotRunnable(f"it is made for {', '.join(platforms)[:100]}, and this is {PLATFORM}")
    launch = manifest.server.mcp_config
    other = launch.platform_overrides.get(PLATFORM, Launch())
    args = launch.args if other.args is None else other.args
    env = (launch.env if other.env is None else other.env) or {}
    entry = _inside(manifest.server.entry_point, files, "its entry point")
    places = {"__dirname": folder, "/": "/", "pathSeparator": "/"}
    places |= {name: f"{home}{below}" for name, below in _FOLDERS.items()}
    command, usual = _program(manifest.server.type, other.command or launch.command, entry, folder, files)
    texts = [("argument", "", text) for text in (usual if args is None else args)]
    texts += [("variable", name, text) for name, text in env.items()]
    slots = []
    for place, name, text in texts:
        refuse_unseen(text, "an argument or variable")
        slots.append(_slot(place, name, text, places, manifest.user_config))  # type: ignore[arg-type]
    for slot in slots:
        if slot.place == "variable":
            is_own = all(part.startswith(f"{folder}/") for part in (slot.template or "").split(":"))
            is_safe = is_own or slot.asked or _HARMLESS.fullmatch(slot.name)
            refuse_variable(slot.name, fixed=not is_safe)
    return Way(kind="mcpb", command=command, slots=tuple(slots))


def _program(
    kind: str, command: str, entry: str, folder: str, files: Container[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The program of a bundle of this type, and its arguments where the manifest has none. Raises: NotRunnable."""
    path = f"{folder}/{entry}"
    if kind == "binary":
        own = command.replace("${__dirname}/", "").replace("${__dirname}${/}", "") or entry
        return (f"{folder}/{_inside(own, files, 'its program')}",), ()
    if kind == "uv" or (kind == "python" and command in ("uv", "uvx")):
        if command not in ("", "uv", "uvx"):
            raise _other_program(command, "uv")
        return (command or "uv",), ("run", "--directory", folder, path)
    if kind == "node" and command in ("", "node"):
        return ("node",), (path,)
    if kind == "python" and (not command or _PYTHON.fullmatch(command)):
        return (command if command not in ("", "python") else "python3",), (path,)
    if kind in ("node", "python"):
        raise _other_program(command, kind)
    raise NotRunnable("it is of a type that is not known; node, python, uv and binary are")


def _other_program(command: str, usual: str) -> NotRunnable:
    shown = command[:80] if command.isprintable() else "something"
    return NotRunnable(f"it runs {shown} in place of {usual}; {BY_HAND}")


def _inside(path: str, files: Container[str], what: str) -> str:
    """A path in the bundle, which must be one of its files. Raises: NotRunnable."""
    plain = os.path.normpath(path)
    if not path or plain.startswith(("/", "..")) or plain not in files:
        raise NotRunnable(f"{what} is no file in it")
    return plain


def _slot(place: Place, name: str, text: str, places: Mapping[str, str], options: Mapping[str, UserOption]) -> Slot:
    """The slot of an argument or variable."""
    used: dict[str, UserOption] = {}

    def fill(found: re.Match[str]) -> str:
        word, key = found[1], found[1].removeprefix("user_config.")
        if word in places:
            return places[word]
        if key == word or key not in options:
            return found[0]
        used[key] = options[key]
        return f"{{{_variable(key)}}}"

    template = _REFERENCE.sub(fill, text)
    repeated = place == "argument" and any(option.multiple for option in used.values())  # a variable has one value
    asked = tuple(_question(key, option, places) for key, option in used.items())
    return Slot(place=place, name=name, template=template, asked=asked, repeated=repeated)


def _variable(key: str) -> str:
    return f"user_config.{key}"


def _question(key: str, option: UserOption, places: Mapping[str, str]) -> Asked:
    defaults = tuple(_REFERENCE.sub(lambda found: places.get(found[1], found[0]), each) for each in _defaults(option))
    words = ": ".join(filter(None, (option.title, option.description)))
    return Asked(
        key=key,
        variable=_variable(key),
        input=Input(
            description=words, format=option.type, default=defaults[0] if defaults and not option.multiple else None
        ),
        required=option.required,
        secret=option.sensitive,
        least=option.min if option.type == "number" else None,
        most=option.max if option.type == "number" else None,
        defaults=defaults if option.multiple else (),
    )


def _defaults(option: UserOption) -> Iterator[str]:
    value: Any = option.default
    for each in value if isinstance(value, tuple) else () if value is None or option.sensitive else (value,):
        yield str(each).lower() if isinstance(each, bool) else f"{each:.15g}" if isinstance(each, float) else each


# --- versions of runtimes ---------------------------------------------------------------------------------------------


def refuse_runtime(manifest: BundleManifest, program: str, version_of: Callable[[], str]) -> None:
    """Refuse a program of a version that will not do; one that is not understood will. Raises: NotRunnable."""
    kind = "node" if program == "node" else "python"
    wanted = manifest.compatibility.runtimes.get(kind, "")
    if not wanted or program in ("uv", "uvx") or (found := _COMPARATOR.search(version := version_of())) is None:
        return
    if not any(_meets(each, _numbers(found)) for each in wanted.split("||")):
        raise NotRunnable(f"it needs {kind} {wanted[:80]}, and this is {version.strip()[:40]}")


def _meets(wanted: str, version: tuple[int, ...]) -> bool:
    return all(_fits(found[1] or "", _numbers(found), version) for found in _COMPARATOR.finditer(wanted))


def _fits(sign: str, wanted: tuple[int, ...], version: tuple[int, ...]) -> bool:
    here = version[: len(wanted)]
    match sign:
        case ">=":
            return version >= wanted
        case ">":
            return here > wanted
        case "<=":
            return here <= wanted
        case "<":
            return version < wanted
        case "^":
            return version >= wanted and version[0] == wanted[0]
        case "~":
            return version >= wanted and version[:2] == wanted[:2]
        case _:
            return here == wanted


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part) for part in found.groups()[1:] if part is not None)
