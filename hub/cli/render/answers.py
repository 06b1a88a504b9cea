"""`hubd logs` and `hubd tools` as text, and as blocks of a screen. Pure."""

from collections.abc import Iterable, Mapping
from time import localtime, strftime
from typing import TYPE_CHECKING, Any, Final

from hub.cli.render.screen import Block, Table, styled
from hub.wire.printable import printable
from upstreams.status_facts import JournalRecord

if TYPE_CHECKING:
    from rich.text import Text


def record(entry: JournalRecord, names: int = 0) -> "Text":
    """`hubd logs`: `2026-11-21 14:03:11  stderr  what it said`, in the time of this machine; of several logs with the
    name before that, in `names` cells."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(entry.at))
    line = styled(f"{at}  ", "dim")
    if names:
        line += styled(f"{entry.name:{names}}  ", "name")
    style = _KINDS.get(entry.kind)
    kind = f"{printable(entry.kind):{7 if names else 6}}"
    return line + (styled(kind, style) if style else kind) + f"  {printable(entry.text)}"


_KINDS: Final[Mapping[str, str]] = {"exit": "warning", "warning": "warning", "error": "bad", "critical": "bad"}
"""Styles of kinds of records."""


def tools(entries: Iterable[Mapping[str, Any]]) -> list[Block]:
    """`hubd tools`: a name and the first line of its description per line."""
    rows = []
    for entry in entries:
        description = str(entry.get("description") or entry.get("title") or "").strip()
        rows.append((styled(str(entry.get("name")), "name"), description.partition("\n")[0]))
    return [Table((), rows, shorten=(1, 0))] if rows else []
