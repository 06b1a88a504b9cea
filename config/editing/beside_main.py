"""The files that hubd writes by itself beside the main file: `imported/HOST.toml`, and the block in `hubd.env`.

`hubd import` writes one file for each host. It says where each server came from, and carries a checksum: as long as it
is right nobody has edited the file by hand, and a later import may add to it. What was taken once stays, whatever the
host drops. What `hubd remove` takes out leaves a mark, so that the next import does not bring it back: where it came
from, and a digest of what it was.

`Capture` is what `hubd.env` would hold once the environment of a shell is recorded there.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.editing.text.change import Edit, EditRefused
from config.environment.own_file import NotReadable, in_block, outside, with_block
from config.environment.passing import recording
from config.errors import EditError
from config.files import read_file, replace_file
from config.loading.gather import OWN_VARIABLES
from config.loading.variables import MAX_FILE_BYTES
from config.settings import HubConfig

_CHECKSUM: Final = re.compile(r"# Checksum of what follows: ([0-9a-f]{64})\n")
_REMOVED: Final = re.compile(r"# Removed by `hubd remove`, .* \(([0-9a-f]{16})\)")


def compose_file(title: str, id: str, blocks: Iterable[str]) -> str:
    """The whole file of one host."""
    head = (
        f"# MCP servers of {title}. `hubd import {id}` wrote this file, and adds to it as long as nobody edits it.\n"
        "# To change one, write [upstreams.NAME] with the settings that differ into hubd.toml: they win.\n"
        '# cwd = "~" is where hosts start their servers; without it one would start in the directory of this file.\n'
    )
    return _with_checksum(head, blocks)


def _with_checksum(head: str, blocks: Iterable[str]) -> str:
    body = "\n\n".join(blocks) + "\n"
    return f"{head}# Checksum of what follows: {sha256(body.encode()).hexdigest()}\n\n{body}"


def blocks_of(text: str) -> list[str]:
    """The servers in a file that an import wrote, each with the comments above it; and the marks.

    Raises:
        EditRefused: someone else wrote it, or edited it since.
    """
    found = _CHECKSUM.search(text)
    body = text[found.end() + 1 :] if found else ""
    if found is None or sha256(body.encode()).hexdigest() != found[1]:
        raise EditRefused("was not written by `hubd import`, or was edited since")
    return body.rstrip("\n").split("\n\n")


def without(text: str, name: str) -> Edit:
    """The file without a server, whose mark takes its place; it is still one that only hubd has written.

    Raises:
        EditRefused: as for `blocks_of`; or the server is not there.
    """
    blocks = blocks_of(text)
    for at, block in enumerate(blocks):
        values = tomllib.loads(block).get("upstreams", {}).get(name)
        if values is not None:
            origin = block.partition("\n")[0]
            mark = f"# Removed by `hubd remove`, and not taken over again, but for --again ({digest_of(values)})"
            blocks[at] = f"{origin}\n{mark}"
            head = text[: text.index("# Checksum of what follows: ")]
            return Edit(0, text, _with_checksum(head, dict.fromkeys(blocks)))
    raise EditRefused(f'there is no "{name}"')


def marks_of_removal(text: str) -> set[str]:
    """The marks in such a file: first lines of blocks, and digests."""
    pairs = pairwise(["", *text.splitlines()])
    return {each for before, line in pairs if (mark := _REMOVED.fullmatch(line)) for each in (before, mark[1])}


def digest_of(values: Mapping[str, Any]) -> str:
    """A digest that tells a server from others, by its settings as they are written."""
    if values.get("url"):
        parts: list[Any] = [str(values["url"]).rstrip("/")]
    else:
        parts = [values.get("command"), list(values.get("args") or ()), sorted(values.get("env") or ())]
    return sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


class Capture(Struct, frozen=True, kw_only=True):
    """The change of a `hubd.env` that records a shell."""

    path: Path
    before: bytes | None
    """None: there is no file yet."""
    after: bytes
    recorded: dict[str, str] | None
    """The variables that were recorded until now; None: nothing."""
    values: dict[str, str]
    """The variables that are recorded then."""
    left_out: dict[str, str]
    """The reasons, by the name of a variable or directory."""

    @property
    def changes(self) -> bool:
        """True if the file is another one then."""
        return self.after != (self.before or b"")


def environment_file(config: Path) -> Path | None:
    """The `hubd.env` beside this main file; None: a host's own file has none."""
    return config.with_name(OWN_VARIABLES) if config.suffix == ".toml" else None


def capture(path: Path, environ: Mapping[str, str], config: HubConfig) -> Capture:
    """The change that records `environ` for the servers of `config` in the file `path`. Variables that the user's own
    lines there set are left to these. Blocks.

    Raises:
        EditError: the file cannot be read, or would be too large.
    """
    before = read_file(path, trusted=True)
    data = before or b""
    patterns = [config.defaults.pass_, *(each.pass_ for each in config.upstreams.values() if each.command)]
    started = (each.command for each in config.upstreams.values() if each.command and not each.disabled)
    commands = [command for command in started if "/" not in command]
    try:
        own, recorded = outside(data), in_block(data)
        found = recording(environ, patterns, commands)
        values = {name: value for name, value in found.values.items() if name not in own}
        after = with_block(data, values)
    except NotReadable as error:
        raise EditError(f"{path}: {error}; it was left as it is") from None
    if len(after) > MAX_FILE_BYTES:
        raise EditError(f"{path}: would be larger than {MAX_FILE_BYTES >> 10} KB; it was left as it is")
    left_out = found.left_out | {name: f"a line of yours in {path} sets it" for name in found.values if name in own}
    return Capture(path=path, before=before, after=after, recorded=recorded, values=values, left_out=left_out)


def write_capture(planned: Capture, now: datetime, backups: Path) -> Path | None:
    """Write the file, for its owner alone; the backup of the one before. Blocks.

    Raises:
        EditError: the file is another one by now, or cannot be written.
    """
    return replace_file(planned.path, planned.after, was=planned.before, now=now, backups=backups, mode=0o600)
