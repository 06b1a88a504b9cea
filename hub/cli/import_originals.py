"""`hubd import --disable-originals`: hosts stop starting what the hub serves, and keep the rest."""

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from os import EX_OK
from pathlib import Path
from typing import TYPE_CHECKING

from hub.cli.import_writes import carry_out_writes, run_removals, show_writes
from hub.cli.subcommand import EX_FAILED, Output, UsageError, nearest

if TYPE_CHECKING:
    from config.hosts.facts import Machine
    from config.hosts.import_choice import Import
    from config.hosts.installed import Records
    from config.hosts.leaving import Leaving, Served
    from config.settings import HubConfig


class ImportedOriginals:
    """The servers in hosts whose upstreams one import found or made. Without `--disable-originals` it does nothing."""

    def __init__(
        self,
        options: argparse.Namespace,
        result: "Import",
        config: "HubConfig",
        machine: "Machine",
        records: "Records",
        unkept: Mapping[str, str] = {},
    ) -> None:
        """`config`: the one before the import; `unkept`: why servers stay whatever the hub says of them.

        Raises:
            UsageError: `--force` names a server that is not there.
            EditError: nobody knows what earlier imports took out.
        """
        self._options = options
        self._output: Output = options.output
        self._result = result
        self._config = config
        self._machine = machine
        self._records = records
        self._unkept = unkept
        self._forced: frozenset[str] = frozenset()
        if options.disable_originals:
            self._forced = self._named_by_force()
            self._refuse_damage()
        elif options.force:
            raise UsageError("--force belongs to --disable-originals")

    def _named_by_force(self) -> frozenset[str]:
        from fnmatch import fnmatchcase

        known = list(dict.fromkeys(name for name, _ in (*self._result.taken, *self._result.known)))
        found: set[str] = set()
        for pattern in self._options.force:
            names = {name for name in known if fnmatchcase(name, pattern)}
            if not names:
                hint = nearest(pattern, known) or f"there are: {', '.join(known) or 'none'}"
                raise UsageError(f"--force: these hosts have no server {pattern}; {hint}")
            found |= names
        return frozenset(found)

    def _refuse_damage(self) -> None:
        from config.hosts.originals import Originals
        from config.hub_paths import originals_path

        Originals(originals_path())

    def files(self) -> list[str]:
        """The files of hosts that change if the hub serves everything."""
        if not self._options.disable_originals:
            return []
        plan = self._plan(self._hoped())
        paths = [*(write.path for write in plan.writes), *(call.path for call in plan.programs)]
        return list(dict.fromkeys(map(str, paths)))

    def show(self) -> int:
        """Show what would be taken out, as far as that is known without starting anything; the exit code."""
        if not self._options.disable_originals:
            return EX_OK
        hoped = self._hoped()
        told, running = self._as_running()
        unknown = [name for name in hoped if name not in told]
        plan = self._plan({**hoped, **told})
        show_writes(plan.writes, (), self._output)
        for call in plan.programs:
            self._output.append("commands", shlex.join(call.command))
            self._output.say(f"would run: {shlex.join(call.command)}")
        if unknown:
            why = "the hub does not have them yet" if running else "no hub runs"
            self._output.note(
                f"{', '.join(unknown)}: shown as if the hub served them, since {why}; those that do not connect stay"
            )
        return self._say(plan)

    def take_out(self) -> int:
        """Take out of hosts what the hub serves, and say what stays and why; the exit code.

        Raises:
            EditError: a file was changed meanwhile, or cannot be written.
        """
        if not self._options.disable_originals:
            return EX_OK
        served = self._served()
        if served is None:
            return EX_FAILED
        plan = self._plan(served)
        code = carry_out_writes(plan.writes, (), self._output)
        return max(code, self._run(plan), self._say(plan))

    # --- deciding

    def _plan(self, served: "Served") -> "Leaving":
        from config.hosts.leaving import leaving

        return leaving(
            self._result,
            self._config,
            self._machine,
            self._records,
            served={**served, **self._unkept},
            forced=self._forced,
            without_hub=self._options.without_hub,
        )

    def _hoped(self) -> dict[str, str]:
        """As if the hub served everything."""
        from config.hosts.leaving import candidates

        return dict.fromkeys(candidates(self._result, self._forced), "")

    def _asked(self) -> list[str]:
        """The servers that need to be served: not those that stay for another reason."""
        plan, hoped = self._plan(self._hoped()), self._hoped()
        stay = {(each.place.path, each.place.kept.root, each.key) for each in plan.stays}
        leave = {
            name
            for name, server in (*self._result.taken, *self._result.known)
            if (server.place.path, server.place.kept.root, server.key) not in stay
        }
        return [name for name in hoped if name in leave]

    def _as_running(self) -> tuple[dict[str, str], bool]:
        """The words of a hub that runs about the servers that it has; False: none runs."""
        from hub.cli.served import reasons, status_of
        from hub.control.errors import ControlFailed, HubNotRunning

        try:
            status = status_of(self.main)
        except (HubNotRunning, ControlFailed, UsageError):
            return {}, False
        there = {row.name for row in status.upstreams}
        return reasons([name for name in self._hoped() if name in there], status), True

    def _served(self) -> dict[str, str] | None:
        """Of each server whether the hub serves it; None: that cannot be told, and was said."""
        from hub.cli.served import served
        from hub.control.errors import ControlFailed, HubNotRunning

        try:
            asked, of_projects = self._asked(), self._of_projects()
            own = [name for name in asked if name not in of_projects]
            projects = {name: of_projects[name] for name in asked if name in of_projects}
            can_start = self._options.config is None
            return served(own, self._output, main=self.main, can_start=can_start, projects=projects)
        except (HubNotRunning, ControlFailed, UsageError) as error:
            self._output.fail(EX_FAILED, f"nothing was taken out of hosts, since no hub can tell what works: {error}")
            return None

    def _of_projects(self) -> dict[str, Path]:
        """The servers that are only in the file of a project."""
        found = {}
        for name, server in (*self._result.taken, *self._result.known):
            if server.place.project is not None and name not in self._config.upstreams:
                found[name] = server.place.project
        users = {name for name, server in self._result.taken if server.place.project is None}
        return {name: project for name, project in found.items() if name not in users}

    @property
    def main(self) -> Path:
        """The main file of the hub."""
        from config.hub_paths import config_file

        return Path(os.path.abspath((self._options.config or config_file()).expanduser()))

    # --- doing and saying

    def _run(self, plan: "Leaving") -> int:
        """Have hosts change their files themselves; the exit code."""
        done, code = run_removals(plan.programs, self._machine.environ, self._output)
        for call in done:
            self._output.say(f"ran {shlex.join(call.command)}")
        return code

    def _say(self, plan: "Leaving") -> int:
        """Say which servers stay with their hosts, and why; the exit code."""
        output, code = self._output, EX_OK
        for each in plan.stays:
            output.append(
                "stay",
                {"host": each.place.host.id, "server": each.key, "name": each.name, "why": each.why},
            )
        for sentence in plan.sentences:
            code = output.fail(EX_FAILED, sentence)
        unserved = _names(plan)
        if unserved:
            flags = " ".join(f"--force {name}" for name in unserved)
            output.note(f"what the hub does not serve goes on working in its host; {flags} takes it out all the same")
        return code


def _names(plan: "Leaving") -> Sequence[str]:
    return list(dict.fromkeys(each.name for each in plan.stays if each.kind == "not served"))
