"""Writing of an import: the files of the hub, and with `--disable-originals` the files of hosts, which stop
starting what the hub serves and keep the rest.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from os import EX_OK
from pathlib import Path
from typing import Any

from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.errors import EditError
from config.files import lock_edits
from config.hosts.facts import Machine
from config.hosts.hub_entries import Records
from config.hosts.import_choice import Import
from config.hosts.import_writing import Write, carry_out
from config.hosts.install import run_program, text_at
from config.hosts.leaving import Leaving, RemovalCommand, Served, Stays, candidates, leaving
from config.hosts.originals import Originals
from config.hosts.remembered import HadBefore
from config.hub_paths import config_file, had_before_path, originals_path, state_dir
from config.settings import HubConfig
from hub.cli.desk import EX_FAILED, Desk, Output, UsageError, nearest, now
from hub.cli.hosts.changes import host_diff, text_diff
from hub.cli.hosts.served import find_unserved, reasons, status_of
from hub.control.errors import ControlFailed, HubNotRunning


class ImportedOriginals:
    """The servers in hosts whose upstreams one import found or made. Without `--disable-originals` it does nothing."""

    def __init__(
        self,
        options: Desk,
        result: Import,
        config: HubConfig,
        machine: Machine,
        records: Records,
        unkept: Mapping[str, str] = {},
        stays: Sequence[Stays] = (),
    ) -> None:
        """`config`: the one before the import; `unkept`: why servers stay whatever the hub says of them; `stays`: those
        that are not imported.

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
        self._stays = stays
        self._forced: frozenset[str] = frozenset()
        if options.disable_originals:
            self._forced = self._names_by_force()
            Originals(originals_path())  # one that is damaged is refused before anything is changed
        elif options.force:
            raise UsageError("--force belongs to --disable-originals")

    def _names_by_force(self) -> frozenset[str]:
        known = list(dict.fromkeys(name for name, _ in (*self._result.taken, *self._result.known)))
        found: set[str] = set()
        for pattern in self._options.force:
            names = {name for name in known if fnmatchcase(name, pattern)}
            if not names:
                hint = nearest(pattern, known) or f"there are: {', '.join(known) or 'none'}"
                raise UsageError(f"--force: these hosts have no server {pattern}; {hint}")
            found |= names
        return frozenset(found)

    def files(self) -> list[str]:
        """The files of hosts that change if the hub serves everything."""
        if not self._options.disable_originals:
            return []
        plan = self._plan(self._hope())
        paths = [*(write.path for write in plan.writes), *(call.path for call in plan.programs)]
        return list(dict.fromkeys(map(str, paths)))

    def show(self) -> int:
        """Show what would be taken out, as far as that is known without starting anything; the exit code."""
        if not self._options.disable_originals:
            return EX_OK
        hoped = self._hope()
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
        served = self._ask_what_is_served()
        if served is None:
            return EX_FAILED
        plan = self._plan(served)
        code = carry_out_writes(plan.writes, (), self._output)
        return max(code, self._run(plan), self._say(plan))

    # --- deciding

    def _plan(self, served: Served) -> Leaving:
        plan = leaving(
            self._result,
            self._config,
            self._machine,
            self._records,
            served={**served, **self._unkept},
            forced=self._forced,
            without_hub=self._options.without_hub,
        )
        plan.stays.extend(self._stays)
        return plan

    def _hope(self) -> dict[str, str]:
        """As if the hub served everything."""
        return dict.fromkeys(candidates(self._result, self._forced), "")

    def _names_to_serve(self) -> list[str]:
        """The servers that need to be served: not those that stay for another reason."""
        hoped = self._hope()
        stay = {(each.place.path, each.place.kept.root, each.key) for each in self._plan(hoped).stays}
        leave = {
            name
            for name, server in (*self._result.taken, *self._result.known)
            if (server.place.path, server.place.kept.root, server.key) not in stay
        }
        return [name for name in hoped if name in leave]

    def _as_running(self) -> tuple[dict[str, str], bool]:
        """The words of a hub that runs about the servers that it has; False: none runs."""
        try:
            status = status_of(self.main)
        except (HubNotRunning, ControlFailed, UsageError):
            return {}, False
        there = {row.name for row in status.upstreams}
        return reasons([name for name in self._hope() if name in there], status), True

    def _ask_what_is_served(self) -> dict[str, str] | None:
        """Of each server whether the hub serves it; None: that cannot be told, and was said."""
        try:
            asked, of_projects = self._names_to_serve(), self._of_projects()
            own = [name for name in asked if name not in of_projects]
            projects = {name: of_projects[name] for name in asked if name in of_projects}
            can_start = self._options.config is None
            return find_unserved(own, self._output, main=self.main, can_start=can_start, projects=projects)
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
        return Path(os.path.abspath((self._options.config or config_file()).expanduser()))

    # --- doing and saying

    def _run(self, plan: Leaving) -> int:
        """Have hosts change their files themselves; the exit code."""
        done, code = run_removals(plan.programs, self._machine.environ, self._output)
        for call in done:
            self._output.say(f"ran {shlex.join(call.command)}")
        return code

    def _say(self, plan: Leaving) -> int:
        """Say which servers stay with their hosts, and why; the exit code."""
        output, code = self._output, EX_OK
        for each in plan.stays:
            output.append("stay", {"host": each.place.host.id, "server": each.key, "name": each.name, "why": each.why})
        for sentence in plan.sentences:
            code = output.fail(EX_FAILED, sentence)
        unserved = _names(plan)
        if unserved:
            flags = " ".join(f"--force {name}" for name in unserved)
            output.note(f"what the hub does not serve goes on working in its host; {flags} takes it out all the same")
        return code


def _names(plan: Leaving) -> Sequence[str]:
    return list(dict.fromkeys(each.name for each in plan.stays if each.kind in ("not served", "sign-in")))


def show_writes(writes: Sequence[Write], secrets: Sequence[str], output: Output) -> None:
    """Show what would be written, as diffs without `secrets`."""
    for write in writes:
        diff = _diff(write, secrets)
        output.append("files", _file(write.path, None, diff))
        output.say(diff)


def carry_out_writes(writes: Sequence[Write], secrets: Sequence[str], output: Output) -> int:
    """Write files of the hub, and of hosts. A failure of one does not stop the others, and is said. The exit code.

    Raises:
        EditError: nothing can be written.
    """
    done, code = write_each(writes, output)
    for write, backup in done:
        output.append("files", _file(write.path, backup, _diff(write, secrets)))
        output.say(f"wrote {write.path}")
    if backups := [backup for _, backup in done if backup is not None]:
        output.say(f"the old files are in {backups[0].parent}")
    return code


def write_each(writes: Sequence[Write], output: Output) -> tuple[list[tuple[Write, Path | None]], int]:
    """Write each file, and remember what is taken out of it. A failure of one does not stop the others, and is said.
    Those that were written with their backups, and the exit code.

    Raises:
        EditError: nothing can be written.
    """
    done: list[tuple[Write, Path | None]] = []
    code = EX_OK
    if not writes:
        return done, code
    with lock_edits(state_dir()):
        remembered = Originals(originals_path())
        for write in writes:
            before = remembered.get(write.path)
            if write.originals:  # recorded before the change: what was not taken out is never put back
                remembered.add(write.path, write.originals)
            try:
                done.append((write, carry_out(write, now())))
            except EditError as error:
                if write.originals:
                    remembered.put(write.path, before)
                code = output.fail(EX_FAILED, str(error))
    return done, code


def run_removals(
    calls: Sequence[RemovalCommand], environ: Mapping[str, str], output: Output
) -> tuple[list[RemovalCommand], int]:
    """Have programs of hosts take servers out, and remember these. A failure of one does not stop the others, and is
    said. Those that were run, and the exit code.

    Raises:
        EditError: nothing can be written.
    """
    done: list[RemovalCommand] = []
    code = EX_OK
    if not calls:
        return done, code
    with lock_edits(state_dir()):
        remembered = Originals(originals_path())
        for call in calls:
            if not _is_same(call):
                key = call.original.key
                code = output.fail(
                    EX_FAILED, f'{call.path}: "{key}" was changed meanwhile, and left as it is; run this again'
                )
                continue
            before = remembered.get(call.path)
            remembered.add(call.path, [call.original])
            try:
                run_program(call.command, environ)
            except EditError as error:
                if _is_there(call):
                    remembered.put(call.path, before)
                code = output.fail(EX_FAILED, str(error))
                continue
            output.append("commands", shlex.join(call.command))
            done.append(call)
    return done, code


def remember_hosts(result: Import) -> None:
    """Keep what each host had itself, with its own choice of tools.

    Raises:
        EditError: it cannot be written.
    """
    with lock_edits(state_dir()):
        HadBefore(had_before_path()).add(result.had)


def tools_by_server(config: HubConfig) -> dict[str, tuple[str, ...]]:
    """The setting `tools` of each server that the hub has."""
    return {name: upstream.tools for name, upstream in config.upstreams.items()}


def _diff(write: Write, secrets: Sequence[str]) -> str:
    """The diff of a file, without secrets."""
    before = write.before or ""
    if write.place is not None:
        return host_diff(write.place, before.encode(), write.after.encode())
    return text_diff(write.path, before, write.after, secrets)


def _file(path: Path, backup: Path | None, diff: str) -> dict[str, Any]:
    return {"file": str(path), "backup": backup and str(backup), "diff": diff}


def _is_same(call: RemovalCommand) -> bool:
    """True if the host's file has the server as it was when this was planned."""
    try:
        return bool(
            serverfile.entries(call.original.shape, text_at(call.path)).get(call.original.key) == call.original.entry
        )
    except (EditError, EditRefused):
        return False


def _is_there(call: RemovalCommand) -> bool:
    """True if the host's file still has the server, although its program was to take it out; False if nobody knows."""
    try:
        return not call.original.is_out(text_at(call.path))
    except (EditError, EditRefused):
        return False
