"""The file `imported/HOST.toml` beside the main file, which `hubd import` writes for each host.

It says where each server came from, and carries a checksum: as long as it
is right nobody has edited the file by hand, and a later import may add to it. What was taken once stays, whatever the
host drops. What `hubd remove` takes out leaves a mark, so that the next import does not bring it back: where it came
from, and a digest of what it was.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

from config.editing.text.change import Edit, EditRefused

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
    Raises: EditRefused, if someone else wrote it, or edited it since."""
    found = _CHECKSUM.search(text)
    body = text[found.end() + 1 :] if found else ""
    if found is None or sha256(body.encode()).hexdigest() != found[1]:
        raise EditRefused("was not written by `hubd import`, or was edited since")
    return body.rstrip("\n").split("\n\n")


def without(text: str, name: str) -> Edit:
    """The file without a server, whose mark takes its place; it is still one that only hubd has written.
    Raises: EditRefused, as for `blocks_of`; or the server is not there."""
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
