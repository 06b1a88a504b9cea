"""The questions of a setup. Where nobody can be asked, or `--yes` is given, the defaults are taken."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence

from config.hosts.import_plan import Import
from config.hosts.secret_literals import NewSecrets
from config.secrets.store import SecretStore
from hub.cli.context import Context, Output, UsageError, ask
from hub.cli.render.blocks import Block
from hub.cli.setup import screens
from hub.cli.setup.verdicts import ServerVerdict, leave
from hub.cli.shell_secrets import ask_what_to_keep, keep_in, only_here, unkept, why_not_kept


def may_ask(options: Context) -> bool:
    """True if somebody is to be asked."""
    return not options.yes and not options.dry_run and options.output.is_attended()


def keep_variables(
    options: Context, result: Import, found: list[ServerVerdict], own: Collection[str]
) -> tuple[list[ServerVerdict], NewSecrets | None]:
    """Ask which variables that only this shell has are kept; servers that lack one then are left with their hosts. The
    verdicts, and what is to be kept. `own`: variables that `hubd.env` sets. Raises EditError: the store of secrets
    cannot be read."""
    output = options.output
    wanted = only_here([(name, server.values) for name, server in result.all], own)
    if not wanted:
        return found, None
    kept = ask_what_to_keep(wanted) if may_ask(options) else list(wanted)
    then = ", then `hubd setup` again takes it over"
    left = {server: why_not_kept(names) + then for server, names in unkept(wanted, kept).items()}
    if left:
        found = leave(result, found, left)
        output.set(servers=[each.as_object() for each in found])
        output.show("", *screens.stay(found, left))
    new = NewSecrets(SecretStore.open())
    keep_in(new, kept)
    return found, new


def move_secrets() -> bool:
    """Ask whether secrets are moved; Enter is a yes. Raises: UsageError, if there was no answer."""
    text = "Move them to where `hubd secret` keeps them, the keyring or else a file only you can read? [Y/n]"
    while (answer := ask(text)) not in ("", "y", "yes", "n", "no"):
        _say_answers("y or Enter moves them, n leaves them in the files")
    return answer[:1] != "n"


def write_it(changes: Sequence[Block], output: Output) -> bool:
    """Ask for the one yes; `d` shows the changes of the files first. No answer is a no."""
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
            _page(changes, output)
        else:
            _say_answers("y or Enter writes it, n changes nothing, d shows the changes")


def _page(changes: Sequence[Block], output: Output) -> None:
    """Show changes in a pager, `less` or that of PAGER; without one as they are."""
    pager = shlex.split(os.environ.get("PAGER") or "less")
    program = shutil.which(pager[0]) if pager and sys.stdout.isatty() else None
    if program is None:
        output.progress.show(*changes)
        return
    shown = output.progress.render(*changes)
    subprocess.run([program, *pager[1:]], input=shown.encode(), env={"LESS": "FRX", **os.environ}, check=False)


def _say_answers(text: str) -> None:
    print(f"The answers are: {text}.", file=sys.stderr)
