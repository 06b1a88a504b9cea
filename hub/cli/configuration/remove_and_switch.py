"""Commands for servers that are there: `remove`, `enable`, `disable`."""

from functools import partial
from typing import Any

from config.editing.draft_across_files import Draft
from hub.cli.configuration.make_change import MEMBERS, make_change
from hub.cli.context import Context, Output
from hub.cli.hosts.who_runs_servers import hosts_that_lost, say_lost
from hub.cli.parser import add, add_config, add_no_wait, load_when_run, on_main_file
from hub.cli.secret_commands import say_unused, secrets_of


def add_commands(commands: Any) -> None:
    """`remove`, `enable`, `disable`."""
    remove = add(commands, "remove", on_main_file(_remove), json=MEMBERS)
    on, off = (on_main_file(partial(_switch, disabled=disabled)) for disabled in (False, True))
    enable = add(commands, "enable", on, json=MEMBERS)
    disable = add(commands, "disable", off, json=MEMBERS)
    for each in (remove, enable, disable):
        each.add_value("name", "NAME", "the server's name as `hubd status` shows it")
        each.add_flag("--dry-run", "show what would be changed, and change nothing")
    add_no_wait(enable)
    for each in (remove, enable, disable):
        add_config(each)


def _remove(options: Context, output: Output) -> None:
    lost = hosts_that_lost(options.name, options.config)

    def change(draft: Draft) -> tuple[str, str]:
        rest = ""
        if (beneath := draft.remove(options.name)) is not None:
            lost.clear()
            rest = f"; what {beneath.source.path} says of it holds now"
        return "removed", f"removed {options.name}{rest}"

    kept = secrets_of(options.name, options.config)
    make_change(options, change)
    if output.code:
        return
    if not options.dry_run:
        say_unused(kept, options.config, output)
        load_when_run("hub.cli.bundles.folders:remove_unnamed")(options.name, options.config)
    say_lost(options.name, lost, output)


def _switch(options: Context, output: Output, *, disabled: bool) -> None:
    word = "disabled" if disabled else "enabled"

    def change(draft: Draft) -> tuple[str, str]:
        is_changed = draft.switch(options.name, disabled=disabled)
        return (word, f"{word} {options.name}") if is_changed else ("unchanged", f"{options.name} is {word}")

    make_change(options, change, waits=not disabled)
