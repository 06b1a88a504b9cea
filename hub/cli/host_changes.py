"""Changes of the files of hosts, one after the other: decided, asked about once, and carried out."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from os import EX_OK
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.change_report import as_object, as_sentence, of_place, say_refused, show
from hub.cli.subcommand import EX_FAILED, Output, agreed, now

if TYPE_CHECKING:
    from config.hosts.facts import Host, Machine, Place
    from config.hosts.install import Plan
    from config.hosts.installed import Records

Decide = Callable[["Place", "Records"], "Plan"]


class HostChanges:
    """The changes of one command."""

    def __init__(
        self,
        options: argparse.Namespace,
        machine: "Machine",
        by_hand: Callable[["Host"], Mapping[str, Any]] | None = None,
    ) -> None:
        """`by_hand`: the entry for people to write into a file where the change is refused."""
        self._options = options
        self._output: Output = options.output
        self._machine = machine
        self._by_hand = by_hand
        self._steps: list[tuple[Place, Decide]] = []
        self._code = EX_OK
        self._backups: list[Path] = []

    def add(self, places: "Sequence[Place]", decide: Decide) -> None:
        """Have these files changed, in this order; `decide` is asked what to do with each when it is its turn."""
        self._steps += [(place, decide) for place in places]

    def carry_out(self) -> int:
        """Ask, and change one file after the other; a failure of one does not stop the others. The exit code."""
        from config.files import locked
        from config.hosts.installed import Records
        from config.hub_paths import installed_path, state_dir

        if not self._may_write():
            return self._output.fail(EX_FAILED, "nothing was changed")
        with locked(state_dir()):
            records = Records(installed_path())
            for place, decide in self._steps:
                self._change(place, decide, records)
        if self._backups:
            self._output.say(f"the old files are in {self._backups[0].parent}")
        return self._code

    def _may_write(self) -> bool:
        """Ask whether to write; yes without asking, if nobody can or wants to be asked, or nothing would change."""
        from config.errors import EditError
        from config.hosts.installed import Records
        from config.hub_paths import installed_path

        options = self._options
        if options.yes or options.dry_run or not self._output.is_attended():
            return True
        records, paths = Records(installed_path()), []
        for place, decide in self._steps:
            try:
                planned = decide(place, records)
            except EditError:  # it is said when it is its turn
                continue
            if planned.changes:
                paths.append(str(place.path))
        return not paths or agreed(f"Write {', '.join(dict.fromkeys(paths))}?", default=True)

    def _change(self, place: "Place", decide: Decide, records: "Records") -> None:
        from config.errors import EditError
        from config.hosts.install import carry_out
        from config.hub_paths import backup_dir
        from hub.cli.install import remember_originals

        output, title = self._output, place.title
        try:
            planned = decide(place, records)
            if planned.did == "refused":
                self._code = say_refused(planned, self._by_hand, output)
                return
            backup = None
            if self._options.dry_run:
                show(planned, output)
            else:
                backup = carry_out(planned, records, now=now(), backups=backup_dir(), environ=self._machine.environ)
                remember_originals(planned)
                output.say(as_sentence(planned))
            if backup is not None:
                self._backups.append(backup)
            output.append("hosts", as_object(planned, backup))
            for key in planned.foreign:
                output.note(
                    f'{title}: "{key}" in {place.path} is not the hub\'s, so it stays; `hubd import {place.host.id} '
                    "--disable-originals --without-hub` takes it out if the hub serves it, then run this again"
                )
            for key, why in planned.still_out.items():
                self._code = output.fail(EX_FAILED, f'{title}: "{key}" is not put back into {place.path}: {why}')
        except EditError as error:
            self._code = output.fail(EX_FAILED, f"{title}: {error}")
            output.append("hosts", {**of_place(place), "did": "failed", "why": str(error)})
