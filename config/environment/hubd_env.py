"""`hubd.env`, as text: `NAME=value` lines, and among them the marked block that `hubd env capture` writes. Pure.

The block stands first in a file that has none yet, so that a line of the user's further down wins. All other bytes of
the file stay as they are. systemd reads the file, too, so values are written as both understand them.

The file also counts for the hub itself: hosts start the hub with few variables, each with others, so the file wins,
whoever starts it. Only what says where the file and the hub's sockets are is the environment's own: of `HOME`, `HUBD_*`
and `XDG_*` the file has a say where the environment has none.
"""

import re
from collections import UserDict
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

Environ = Mapping[str, str]
"""Variables by name."""
KEPT_PREFIXES = ("HUBD_", "XDG_")


def is_kept(name: str) -> bool:
    """True if the environment's own value of a variable wins over that of the file."""
    return name == "HOME" or name.startswith(KEPT_PREFIXES)


def join_own(environ: Environ, own: Environ) -> dict[str, str]:
    """`environ` with the variables of the file, `own`."""
    return {**environ, **{name: value for name, value in own.items() if name not in environ or not is_kept(name)}}


def for_this_process(environ: Environ) -> dict[str, str]:
    """The variables of a joined environment that the hub itself may take over: those that do not move its files."""
    return {name: value for name, value in environ.items() if not is_kept(name)}


class CurrentEnvironment(UserDict[str, str]):
    """The environment that servers are started with: another one after each reload. It does not show itself."""

    __repr__ = object.__repr__

    def replace(self, values: Environ) -> None:
        """Let these be the variables from now on. What runs keeps what it has."""
        self.data = dict(values)


BEGIN: Final = b"# >>> hubd env capture >>>"
END: Final = b"# <<< hubd env capture <<<"
_ABOUT: Final = b"# Recorded from a shell. `hubd env capture` writes these lines anew; your own belong outside of them."
_LINE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*"
    r"(?:(?P<quote>[\"'])(?P<quoted>.*)(?P=quote)\s*(?:#.*)?|(?P<plain>.*))"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=~-]+")
_UNWRITTEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
"""Characters that end a line for one reader or another, or that no file of text can hold."""


class Assignment(Struct, frozen=True):
    """One variable of such a file."""

    line: int
    """From 1."""
    name: str
    value: str


class NotReadable(Exception):
    """The text is no such file: the reason as a clause, and the line, if it is one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line} {reason}")
        self.reason = reason
        self.line = line


def assignments(text: str) -> Iterator[Assignment]:
    """The variables of a file of `NAME=value` lines, in its order; `export` may stand before them.
    Raises: NotReadable, if a line is not of that form."""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip().removeprefix("export ").strip()
        if not line or line.startswith("#"):
            continue
        if (match := _LINE.fullmatch(line)) is None:
            raise NotReadable("is not of the form KEY=VALUE", number)
        value = match["quoted"] if match["quoted"] is not None else re.sub(r"(^|\s)#.*", "", match["plain"]).strip()
        yield Assignment(number, match["name"], value.replace("\\n", "\n") if match["quote"] == '"' else value)


# --- the marked block -------------------------------------------------------------------------------------------------


def line_for(name: str, value: str) -> str | None:
    """The line that gives a variable this value, for hubd and systemd alike; None: there is none."""
    if not _NAME.fullmatch(name) or _UNWRITTEN.search(value):
        return None
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    if "'" not in value and "\\" not in value:
        return f"{name}='{value}'"
    return None if re.search(r'["\\$`]', value) else f'{name}="{value}"'


def with_block(data: bytes, values: Mapping[str, str]) -> bytes:
    """The file `data` with these values in its block; without a block, if there are none. Values that cannot be
    `written` are left out.
    Raises: NotReadable, if its marks do not fit together."""
    lines = [line for name, value in values.items() if (line := line_for(name, value)) is not None]
    block = b"\n".join([BEGIN, _ABOUT, *(line.encode() for line in lines), END, b""]) if lines else b""
    begin, end = _span(data) or (0, 0)
    return data[:begin] + block + data[end:]


def in_block(data: bytes) -> dict[str, str] | None:
    """The variables of the block; None: there is no block.
    Raises: NotReadable, if its marks do not fit together, or a line is not of the form."""
    return None if (found := _span(data)) is None else _variables(data[found[0] : found[1]])


def outside(data: bytes) -> dict[str, str]:
    """The user's own variables. Raises: NotReadable, as `in_block`."""
    begin, end = _span(data) or (0, 0)
    return _variables(data[:begin] + data[end:])


def _variables(data: bytes) -> dict[str, str]:
    try:
        return {each.name: each.value for each in assignments(data.decode())}
    except UnicodeDecodeError:
        raise NotReadable("is not UTF-8 text") from None


def _span(data: bytes) -> tuple[int, int] | None:
    """The places where the block begins and ends, with the end of its last line; None: there is none."""
    begins, ends, at = [], [], 0
    for line in data.splitlines(keepends=True):
        if line.strip() == BEGIN:
            begins.append(at)
        at += len(line)
        if line.strip() == END:
            ends.append(at)
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] <= begins[0]:
        marks = f"{BEGIN.decode()} and {END.decode()}"
        raise NotReadable(f"does not hold the marks of the recorded block, {marks}, once each and in this order")
    return begins[0], ends[0]
