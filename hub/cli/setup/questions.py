"""The questions of a setup. Where nobody can be asked, or `--yes` is given, the defaults are taken."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hub.cli.subcommand import Output, ask

if TYPE_CHECKING:
    from config.hosts.host_servers import Server
    from hub.cli.render.screen import Block


def may_ask(options: argparse.Namespace) -> bool:
    """True if somebody is to be asked."""
    output: Output = options.output
    return not options.yes and not options.dry_run and output.is_attended()


def which_to_keep(groups: "Sequence[Sequence[tuple[str, Server]]]", output: Output) -> dict[str, str]:
    """For each server that is not to be kept, the name of the one that stands for it. `groups`: servers that look like
    one and the same."""
    merged: dict[str, str] = {}
    for group in groups:
        output.progress.show("", "These look like one server:")
        for number, (name, server) in enumerate(group, 1):
            output.progress.show(f"  {number}  {name} ({server.place.title}): {brief(server.values)}")
        while True:
            answer = ask(f"Keep which? 1 to {len(group)}, or Enter for all:")
            if not answer:
                break
            if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(group):
                kept = group[int(answer) - 1][0]
                merged |= {name: kept for name, _ in group if name != kept}
                break
    return merged


def brief(values: Mapping[str, object]) -> str:
    """What a server runs or opens, without its secrets."""
    import shlex

    from config.secret_detection import masked, secrets_in

    args = values.get("args")
    words = [str(values.get("command"))] + [str(word) for word in (args if isinstance(args, list | tuple) else ())]
    text = str(values["url"]) if values.get("url") else shlex.join(words)
    return masked(text, list(secrets_in(dict(values))))


def write_it(changes: "Sequence[Block]", output: Output) -> bool:
    """Ask for the one yes; `d` shows the changes of the files first. No answer is a no."""
    from hub.cli.subcommand import UsageError

    while True:
        try:
            answer = ask("Write this? [Y/n, d shows the changes]")
        except UsageError:
            return False
        if answer in ("", "y", "yes"):
            return True
        if answer in ("n", "no"):
            return False
        if answer == "d":
            output.progress.show(*changes)
