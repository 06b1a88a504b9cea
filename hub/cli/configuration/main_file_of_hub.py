"""The main file that a command is about: that of the running hub, where no option names one."""

import os
from pathlib import Path

from config.hub_paths import config_file
from hub.cli.context import Command, Context, ask_hub
from hub.control.errors import ControlFailed, HubHangs, HubNotRunning
from hub.control.methods import STATUS


def on_main_file(command: Command, *, needs_answer: bool = True) -> Command:
    """The same command, for the main file of the running hub where no option names one, which is noted: the usual
    file may be one that nobody reads. A hub that hangs is not waited for, and nothing is changed then (HubHangs),
    unless the command does without its answer."""

    def find() -> Path | None:
        try:
            watched = ask_hub(STATUS).config.watched
        except (HubNotRunning, HubHangs, ControlFailed) as error:
            if needs_answer and not isinstance(error, HubNotRunning):
                raise
            return None
        is_usual = not watched or os.path.realpath(watched[0]) == os.path.realpath(config_file())
        return None if is_usual else Path(watched[0])

    def run(options: Context) -> int:
        if options.config is None and (used := find()) is not None:
            options = options.replace(config=used)
            options.output.note(f"this is about {used}, which the running hub uses; --config names another file")
        return command(options)

    return run
