"""Writing of an import: the files of the hub, and with `--disable-originals` the files of hosts, which stop
starting what the hub serves and keep the rest.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from config.atomic_writes import lock_edits
from config.diagnostics import EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.import_plan import Import
from config.hosts.install import text_at
from config.hosts.removal_choice import HostRemovals, Served, Stays, plan_host_removals
from config.hosts.removed_originals import Originals
from config.hosts.servers_hosts_had import HadBefore
from config.hosts.write_import_to_files import Write, carry_out
from config.hub_paths import config_file, had_before_path, originals_path, state_dir
from config.settings import HubConfig
from hub.cli.context import Context, Output, UsageError, nearest_or_all, now
from hub.cli.hosts.change_host_files import host_diff, text_diff
from hub.cli.hosts.who_runs_servers import find_unserved, reasons, status_of
from hub.control.client_errors import ControlFailed, HubNotRunning


class ImportedOriginals(Struct):
    """The servers in hosts whose upstreams one import found or made. Without `--disable-originals` it does nothing.
    Raises, when it is made, UsageError: `--force` names a server that is not there; EditError: nobody knows what
    earlier imports took out."""

    options: Context
    result: Import
    config: HubConfig
    """The configuration before the import."""
    unkept: Mapping[str, str] = {}
    """Why servers stay whatever the hub says of them."""
    stays: Sequence[Stays] = ()
    """Servers that are not imported."""
    forced: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.options.disable_originals:
            self.forced = frozenset().union(*map(self._names_like, self.options.force))
            Originals(originals_path())  # one that is damaged is refused before anything is changed
        elif self.options.force:
            raise UsageError("--force belongs to --disable-originals")

    def _names_like(self, pattern: str) -> list[str]:
        known = list(dict.fromkeys(name for name, _ in self.result.all))
        if found := [name for name in known if fnmatchcase(name, pattern)]:
            return found
        raise UsageError(f"--force: these hosts have no server {pattern}; {nearest_or_all(pattern, known)}")

    def files(self) -> list[str]:
        """The files of hosts that change if the hub serves everything."""
        if not self.options.disable_originals:
            return []
        plan = self._plan(self._hope())
        return list(dict.fromkeys(str(write.path) for write in plan.writes))

    def show(self) -> None:
        """Show what would be taken out, as far as that is known without starting anything."""
        if not self.options.disable_originals:
            return
        output, hoped, told, why = self.options.output, self._hope(), dict[str, str](), "no hub runs"
        with suppress(HubNotRunning, ControlFailed, UsageError):
            status = status_of(self.main)
            there = {row.name for row in status.upstreams}
            told = reasons([name for name in hoped if name in there], status)
            why = "the hub does not have them yet"
        plan = self._plan({**hoped, **told})
        show_writes(plan.writes, (), output)
        if unknown := [name for name in hoped if name not in told]:
            text = f"{', '.join(unknown)}: shown as if the hub served them, since {why}; those that do not connect stay"
            output.note(text)
        self._say(plan)

    def take_out(self) -> None:
        """Take out of hosts what the hub serves, and say what stays and why. Raises EditError: a file was changed
        meanwhile, or cannot be written."""
        output = self.options.output
        if not self.options.disable_originals:
            return
        try:
            served = self._find_unserved()
        except (HubNotRunning, ControlFailed, UsageError) as error:
            text = "nothing was taken out of hosts, since no hub can tell what works"
            return output.fail(f"{text}: {error}")
        plan = self._plan(served)
        carry_out_writes(plan.writes, (), output)
        self._say(plan)

    @property
    def main(self) -> Path:
        """The main file of the hub."""
        return Path(os.path.abspath((self.options.config or config_file()).expanduser()))

    def _plan(self, served: Served) -> HostRemovals:
        plan = plan_host_removals(
            self.result,
            self.config,
            self.options.machine,
            self.options.records,
            served={**served, **self.unkept},
            forced=self.forced,
            without_hub=self.options.without_hub,
        )
        plan.stays.extend(self.stays)
        return plan

    def _hope(self) -> dict[str, str]:
        """As if the hub served everything that would be taken out then."""
        names = (name for name, server in self.result.all if not server.off and name not in self.forced)
        return dict.fromkeys(names, "")

    def _find_unserved(self) -> dict[str, str]:
        """Of each server the reason why the hub does not serve it; those that stay anyway are not asked about."""
        hoped, of_projects = self._hope(), self._of_projects()
        stay = {(each.place.path, each.place.kept.root, each.key) for each in self._plan(hoped).stays}
        places = ((name, each.place, each.key) for name, each in self.result.all)
        leave = {name for name, place, key in places if (place.path, place.kept.root, key) not in stay}
        own = [name for name in hoped if name in leave and name not in of_projects]
        projects = {name: of_projects[name] for name in hoped if name in leave and name in of_projects}
        can_start = self.options.config is None
        return find_unserved(own, self.options.output, main=self.main, can_start=can_start, projects=projects)

    def _of_projects(self) -> dict[str, Path]:
        """The servers that are only in the file of a project."""
        others = {name for name, each in self.result.taken if each.place.project is None} | self.config.upstreams.keys()
        places = ((name, server.place.project) for name, server in self.result.all if name not in others)
        return {name: project for name, project in places if project is not None}

    def _say(self, plan: HostRemovals) -> None:
        """Say which servers stay with their hosts, and why."""
        output = self.options.output
        for each in plan.stays:
            output.append("stay", {"host": each.place.host.id, "server": each.key, "name": each.name, "why": each.why})
        for sentence in plan.sentences:
            output.fail(sentence)
        if unserved := dict.fromkeys(each.name for each in plan.stays if each.kind in ("not served", "sign-in")):
            flags = " ".join(f"--force {name}" for name in unserved)
            output.note(f"what the hub does not serve goes on working in its host; {flags} takes it out all the same")


def show_writes(writes: Sequence[Write], secrets: Sequence[str], output: Output) -> None:
    """Show what would be written, as diffs without `secrets`."""
    for write in writes:
        if write.command:
            output.append("commands", shlex.join(write.command))
            output.say(f"would run: {shlex.join(write.command)}")
        else:
            output.append("files", _file(write.path, None, diff := _diff(write, secrets)))
            output.say(diff)


def carry_out_writes(writes: Sequence[Write], secrets: Sequence[str], output: Output) -> None:
    """Write files of the hub, and of hosts. A failure of one does not stop the others, and is said. Raises EditError:
    nothing can be written."""
    done = write_each(writes, output)
    for write, backup in done:
        if not write.command:
            output.append("files", _file(write.path, backup, _diff(write, secrets)))
            output.say(f"wrote {write.path}")
    if backups := [backup for _, backup in done if backup is not None]:
        output.say(f"the old files are in {backups[0].parent}")
    for command in (write.command for write, _ in done if write.command):
        output.say(f"ran {shlex.join(command)}")


def write_each(writes: Sequence[Write], output: Output) -> list[tuple[Write, Path | None]]:
    """Write each file, or have its host change it, and remember what is taken out of it. A failure of one does not stop
    the others, and is said. Those that were written with their backups. Raises EditError: nothing can be written."""
    done: list[tuple[Write, Path | None]] = []
    if not writes:
        return done
    with lock_edits(state_dir()):
        remembered = Originals(originals_path())
        for write in writes:
            try:
                with _keep_record(remembered, write):
                    done.append((write, carry_out(write, now())))
                if write.command:
                    output.append("commands", shlex.join(write.command))
            except EditError as error:
                output.fail(str(error))
    return done


@contextmanager
def _keep_record(remembered: Originals, write: Write) -> Iterator[None]:
    """Remember servers before the block takes them out of a file: what was not taken out is never put back. If it fails
    they are forgotten, as far as that file still has them. Raises EditError: the command of a host would take out
    another one than was read."""
    if write.command and not _is_same(write):
        key = write.originals[0].key
        raise EditError(f'{write.path}: "{key}" was changed meanwhile, and left as it is; run this again')
    before = remembered.get(write.path)
    if write.originals:
        remembered.add(write.path, write.originals)
    try:
        yield
    except EditError:
        if write.originals and (not write.command or _is_there(write)):
            remembered.put(write.path, before)
        raise


def remember_hosts(result: Import) -> None:
    """Keep what each host had itself, with its own choice of tools. Raises: EditError, if it cannot be written."""
    with lock_edits(state_dir()):
        HadBefore(had_before_path()).add(result.had)


def _diff(write: Write, secrets: Sequence[str]) -> str:
    """The diff of a file, without secrets."""
    before = write.before or ""
    if write.place is not None:
        return host_diff(write.place, before.encode(), write.after.encode())
    return text_diff(write.path, before, write.after, secrets)


def _file(path: Path, backup: Path | None, diff: str) -> dict[str, Any]:
    return {"file": str(path), "backup": backup and str(backup), "diff": diff}


def _is_same(write: Write) -> bool:
    """True if the host's file has the server as it was when this was planned."""
    original = write.originals[0]
    with suppress(EditError, EditRefused):
        return bool(serverfile.entries(original.shape, text_at(write.path)).get(original.key) == original.entry)
    return False


def _is_there(write: Write) -> bool:
    """True if the host's file still has the server, although its program was to take it out; False if nobody knows."""
    with suppress(EditError, EditRefused):
        return not write.originals[0].is_out(text_at(write.path))
    return False
