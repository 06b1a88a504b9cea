"""Reports of changed files: their diffs, and what was done about a file of a host, for people and for programs."""

import difflib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.subcommand import EX_FAILED, Output

if TYPE_CHECKING:
    from config.hosts.facts import Host, Place
    from config.hosts.install import Plan


def below_home(path: Path, home: Path) -> str:
    """A path as people write it in a shell, with `~`."""
    if path.is_relative_to(home) and path != home:
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def of_place(place: "Place") -> dict[str, Any]:
    """The file of a host, for programs."""
    return {"host": place.host.id, "title": place.title, "file": str(place.path)}


def as_object(planned: "Plan", backup: Path | None) -> dict[str, Any]:
    """The change of one file, done or planned, for programs."""
    by_us = planned.changes and not planned.program
    return {
        **of_place(planned.place),
        "did": planned.did,
        "backup": backup and str(backup),
        "diff": host_diff(planned.place, planned.before or b"", planned.after or b"") if by_us else None,
        "commands": [_masked_words(command) for command in planned.program],
        "restored": [each.key for each in planned.restored],
        "note": (planned.changes and planned.place.host.note) or None,
    }


def say_refused(planned: "Plan", by_hand: Callable[["Host"], Mapping[str, Any]] | None, output: Output) -> int:
    """Say why a file was left alone, and which entry to put there `by_hand`; the exit code."""
    from config.editing.text import serverfile
    from config.hosts.entry import KEY

    place, refused = planned.place, {**of_place(planned.place), "did": "refused", "why": planned.why}
    output.fail(EX_FAILED, f"{place.title}: {place.path}: {planned.why}; it was left as it is")
    if by_hand is not None:
        snippet = serverfile.snippet(place.kept, KEY, dict(by_hand(place.host)))
        refused["by_hand"] = snippet
        if not output.json:
            print(f"To add the hub by hand, put this there:\n\n{snippet}\n", file=sys.stderr)
    output.append("hosts", refused)
    return EX_FAILED


def as_sentence(planned: "Plan") -> str:
    """The change of one file as a sentence, for people."""
    place = planned.place
    words = {
        "added": "added to",
        "updated": "updated in",
        "unchanged": "is already in",
        "removed": "removed from",
        "restored": "its servers are back in",
        "absent": "the hub is not in",
    }
    text = f"{place.title}: {words[planned.did]} {place.path}"
    if planned.restored:
        text += f"; back: {', '.join(each.key for each in planned.restored)}"
    return f"{text}; {place.host.note}" if planned.changes and place.host.note else text


def show(planned: "Plan", output: Output) -> None:
    """Show a planned change as a diff, for people."""
    if not planned.changes:
        output.say(as_sentence(planned))
    for command in planned.program:
        output.say(f"would run: {_masked_words(command)}")
    if planned.changes and not planned.program:
        output.say(host_diff(planned.place, planned.before or b"", planned.after or b""))


def _masked_words(command: Sequence[str]) -> str:
    import json

    from config.secrets.detection import masked, secrets_in

    text = shlex.join(command)
    for word in command:
        if word.startswith("{"):
            text = masked(text, list(secrets_in(json.loads(word))))
    return text


# --- diffs ------------------------------------------------------------------------------------------------------------


def host_diff(place: "Place", before: bytes, after: bytes) -> str:
    """The change of a host's file as a unified diff, without secrets."""
    from config.editing.text import serverfile
    from config.secrets.detection import secrets_in

    texts = [data.decode() for data in (before, after)]
    secrets = [secret for text in texts for secret in secrets_in(serverfile.read(place.kept, text))]
    return text_diff(place.path, texts[0], texts[1], secrets)


def configuration_diff(path: Path, before: str, after: str) -> str:
    """The same for a file of hubd's own; "" if it cannot be parsed, so that its secrets are not known."""
    from config.loading.document import parse
    from config.loading.safe_reading import Problem
    from config.secrets.detection import secrets_in

    try:
        secrets = [secret for text in (before, after) for secret in secrets_in(parse(text, path).tree)]
    except Problem:
        return ""
    return text_diff(path, before, after, secrets)


def text_diff(path: Path, before: str, after: str, secrets: Sequence[str]) -> str:
    """The same for any file, without `secrets`. A terminal obeys nothing of it."""
    return "\n".join(_lines(path, before, after, secrets))


def _lines(path: Path, before: str, after: str, secrets: Sequence[str]) -> Iterator[str]:
    from config.secrets.detection import masked
    from hub.wire.printable import printable

    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm=""):
        yield printable(masked(line, secrets), keep="\t")
