"""What changes in a file, as people read it: a unified diff, without secrets and without what a terminal would obey."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.hosts.facts import Place


def of_host(place: "Place", before: bytes, after: bytes) -> str:
    """Of a host's file."""
    from config.editing.text import serverfile
    from config.secret_detection import secrets_in

    texts = [data.decode() for data in (before, after)]
    secrets = [secret for text in texts for secret in secrets_in(serverfile.read(place.kept, text))]
    return of_texts(place.path, texts[0], texts[1], secrets)


def of_configuration(path: Path, before: str, after: str) -> str:
    """Of a file of hubd's own configuration; "" if what is secret in it cannot be told, since it cannot be read."""
    from config.loading.document import parse
    from config.loading.source import Problem
    from config.secret_detection import secrets_in

    try:
        secrets = [secret for text in (before, after) for secret in secrets_in(parse(text, path).tree)]
    except Problem:
        return ""
    return of_texts(path, before, after, secrets)


def of_texts(path: Path, before: str, after: str, secrets: Sequence[str]) -> str:
    """Of any file, without `secrets`."""
    return "\n".join(_lines(path, before, after, secrets))


def _lines(path: Path, before: str, after: str, secrets: Sequence[str]) -> Iterator[str]:
    from config.secret_detection import masked
    from hub.wire.printable import printable

    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm=""):
        yield printable(masked(line, secrets), keep="\t")
