"""Trying servers before anything is changed: a private hub starts them all, and what becomes of each is watched.

Their package caches are warm afterwards, so that the hub itself starts them in seconds.
"""

import sys
import termios
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from select import select
from typing import TYPE_CHECKING, Final

from hub.cli.clock import now_s
from hub.cli.server_watch import ServerOutcome, watch
from hub.cli.setup.private_hub import private_hub
from hub.cli.subcommand import Output

if TYPE_CHECKING:
    from config.hosts.host_servers import Server
    from hub.cli.render.screen import Block

LIMIT_S: Final = 75.0
"""Seconds that a server has which is not being installed: as long as one start may take, and its first list."""
FAILURES: Final = 3
"""Attempts in a row that have to fail before a server counts as one that does not work, if for different reasons."""
INSTALLS: Final = "The first time can take minutes: packages are downloaded."
SKIP: Final = "Enter leaves those that have no answer yet with their hosts."
SKIP_AFTER_S: Final = 5.0
"""Seconds after which Enter does that: what is typed before was not meant so."""
SHOWN: Final = 12
"""Servers under way that are shown by name."""


def probe(
    servers: "Sequence[tuple[str, Server]]", output: Output, *, variables: bytes = b"", head: str = ""
) -> dict[str, ServerOutcome]:
    """Start each server, and say what became of it, by name. `variables`: as in `hubd.env`; `head`: of the live lines.

    Raises:
        UsageError: the hub that should try them does not start.
        KeyboardInterrupt: all of them are stopped.
    """
    if not servers:
        return {}
    if not output.json:
        output.progress.show(head)
    with private_hub(configuration(servers), variables) as hub:
        names = [name for name, _ in servers]
        skip = _Skip(is_attended=output.is_attended() and output.progress.live)

        def draw(found: Mapping[str, ServerOutcome], waiting: Collection[str]) -> "list[Block]":
            return [*progress(found, waiting), *([SKIP] if skip.is_offered else [])]

        return watch(hub, names, output, limit_s=LIMIT_S, failures=FAILURES, draw=draw, is_enough=skip)


class _Skip:
    """A person who does not want to wait any longer, and presses Enter."""

    def __init__(self, *, is_attended: bool) -> None:
        self._is_attended = is_attended
        self._from = now_s() + SKIP_AFTER_S
        self.is_offered = False
        """True once Enter counts."""

    def __call__(self) -> bool:
        """True if Enter was pressed."""
        if not self._is_attended or now_s() < self._from:
            return False
        if not self.is_offered:
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            self.is_offered = True
        if not select([sys.stdin], [], [], 0)[0]:
            return False
        sys.stdin.readline()
        return True


def configuration(servers: "Sequence[tuple[str, Server]]") -> str:
    """A hubd.toml with these servers."""
    from config.hosts.import_choice import block

    return "\n".join(["drain_s = 1", *(block(name, server) for name, server in servers), ""])


def progress(found: Mapping[str, ServerOutcome], waiting: Collection[str]) -> "list[Block]":
    """The live lines while servers are tried: how many have an answer, and each that has none yet."""
    ended = [each for name, each in found.items() if name not in waiting]
    tally = ", ".join(f"{count} {what}" for what, count in Counter(map(_word, ended)).items())
    lines: list[Block] = [f"{len(ended)} of {len(found)} tried" + (f": {tally}" if tally else "")]
    under_way = [found[name] for name in waiting]
    under_way.sort(key=lambda each: not each.installing)
    installing = sum(each.installing for each in under_way)
    if installing:
        lines[0] = f"{lines[0]}; installing {installing} at a time"
    if installing:
        lines.append(INSTALLS)
    lines += [f"  {each.progress}" for each in under_way[:SHOWN]]
    if len(under_way) > SHOWN:
        lines.append(f"  and {len(under_way) - SHOWN} more")
    return lines


def _word(each: ServerOutcome) -> str:
    if each.works:
        return "up"
    return "sign-in needed" if each.state == "unauthorized" else "not started"
