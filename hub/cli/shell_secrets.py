"""Secrets of the shell: variables that servers need, and that only the shell has which a command runs in.

They are kept as secrets of their names on request, so that servers have them whoever starts the hub.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from config.environment.variables_to_record import only_in_shell
from config.hosts.import_plan import Import
from config.hosts.secret_literals import NewSecrets
from config.loading.gather import gather
from config.loading.precedence import stacks
from config.secrets.store import SecretStore
from hub.cli.context import Context, Output, agreed
from hub.cli.render.words import group
from hub.cli.secret_commands import say_kept


def only_here(servers: Iterable[tuple[str, Mapping[str, Any]]], own: Collection[str]) -> dict[str, list[str]]:
    """The variables that servers need, given with their settings, and only this shell has; each with the names of these
    servers. `own`: those that `hubd.env` sets. Raises EditError: the store of secrets cannot be read."""
    found: dict[str, dict[str, None]] = {}
    for name, settings in servers:
        for variable in only_in_shell(settings, os.environ, own):
            found.setdefault(variable, {})[name] = None
    kept = SecretStore.open().names() if found else ()  # to open it makes its directory
    return {variable: list(names) for variable, names in found.items() if variable not in kept}


def only_here_of_hub(named: Path | None) -> dict[str, list[str]]:
    """The same of the servers that the hub has. Raises EditError: as `only_here`."""
    gathered = gather(named, os.environ)
    on = {name: stack for name, stack in stacks(gathered.sources).items() if stack.value("disabled") is not True}
    values = [(name, entry.table.values) for name, stack in on.items() for entry in stack.used]
    return only_here(values, gathered.own_lines)


def ask_what_to_keep(variables: Mapping[str, list[str]]) -> list[str]:
    """Ask of each variable whether it is kept as a secret, Enter is a yes; those that are."""
    kept = []
    for name, servers in variables.items():
        need = f"{' and '.join(servers)} need{'s' * (len(servers) == 1)}"
        if agreed(f"{name}, which {need}, is set in this shell only: keep it as a secret?", default=True):
            kept.append(name)
    return kept


def why_not_kept(names: Sequence[str]) -> str:
    """The reason why servers that need these variables do not work in every hub, and what to do."""
    keeps = " and ".join(f"`hubd secret set {name}`" for name in names)
    are = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {are} set in this shell only: run {keeps}"


def unkept(variables: Mapping[str, list[str]], kept: Collection[str]) -> dict[str, list[str]]:
    """Of each server that needs one, the variables that are not kept."""
    lacking = {name: servers for name, servers in variables.items() if name not in kept}
    return group((server, name) for name, servers in lacking.items() for server in servers)


def _choose(wanted: Mapping[str, list[str]], options: Context, *, is_asked: bool) -> list[str]:
    """The variables to keep: all with `--secrets store`, else those that somebody says yes to."""
    if options.secrets == "store":
        return list(wanted)
    return ask_what_to_keep(wanted) if is_asked else []


def settle_of_import(options: Context, result: Import, own: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """The variables that an import keeps: all with `--secrets store`, else those that somebody says yes to; and of the
    servers that lack one then why they must stay with their hosts, which is said. `own`: as of `only_here`. Raises
    EditError: as `only_here`."""
    wanted = only_here([(name, each.values) for name, each in result.all if not each.off], own)
    is_asked = options.output.is_attended() and not (options.yes or options.dry_run or options.secrets)
    kept = _choose(wanted, options, is_asked=is_asked)
    left = {name: why_not_kept(variables) for name, variables in unkept(wanted, kept).items()}
    for why in dict.fromkeys(left.values()):
        names = [name for name, each in left.items() if each == why]
        work = f"work{'s' * (len(names) == 1)} only in a hub that this shell starts"
        options.output.note(f"{' and '.join(names)} {work}: {why}")
    return kept, left


def settle_of_new(options: Context, values: Mapping[str, Any]) -> list[str]:
    """The variables that `hubd add` keeps for a server of these settings: as of an import. What is not kept is noted.
    Raises EditError: as `only_here`."""
    wanted = only_here([(options.name, values)], gather(options.config, os.environ).own_lines)
    kept = _choose(wanted, options, is_asked=options.secrets is None and options.output.is_attended())
    for names in unkept(wanted, kept).values():
        options.output.note(why_not_kept(names))
    return kept


def keep_in(new: NewSecrets, names: Iterable[str]) -> None:
    """Have `new` keep these variables, under their own names."""
    for name in names:
        new.keep_variable(name, os.environ[name])


def keep_of_hub(named: Path | None, output: Output) -> None:
    """Ask about the variables that servers of the hub need and only this shell has, and keep them; where nobody can be
    asked they are noted. Raises EditError: one cannot be kept; those before it are."""
    wanted = only_here_of_hub(named)
    kept = ask_what_to_keep(wanted) if output.is_attended() else []
    store = SecretStore.open()
    say_kept({name: store.keep(name, os.environ[name]) for name in kept}, output)
    for server, names in unkept(wanted, kept).items():
        output.note(f"{server} works only in a hub that this shell starts: {why_not_kept(names)}")
