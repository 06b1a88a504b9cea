"""All that a setup would write, and carrying it out: the hub's own files first, then the hub, and hosts' files only
once it serves.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from msgspec import Struct

from config.atomic_writes import lock_edits
from config.diagnostics import EditError
from config.hosts import write_import_to_files
from config.hosts.hub_entries import KEY, stdio_entry, variables_to_carry
from config.hosts.import_plan import Import
from config.hosts.install import Plan, own_program, plan_entries
from config.hosts.known_hosts import Machine, Place
from config.hosts.removal_choice import HostRemovals, Served, plan_host_removals
from config.hosts.removed_originals import Original, is_same_file, of_host
from config.hosts.secret_literals import NewSecrets
from config.hosts.write_import_to_files import Write
from config.hub_paths import backup_dir, state_dir
from config.loading.assemble import load_all
from config.settings import HubConfig, UpstreamConfig
from hub.cli.await_server_starts import watch
from hub.cli.configuration.env_command import Capture, write_capture
from hub.cli.context import Context, Output, client, now, own_command
from hub.cli.hosts.carry_out_import import remember_hosts, write_each
from hub.cli.hosts.change_host_files import as_object, originals_of, write_plan
from hub.cli.secret_commands import say_kept
from hub.cli.setup import start_hub
from hub.cli.setup.hold_back_signals import hold_back
from hub.cli.setup.probe import FAILURES, progress
from hub.cli.setup.start_hub import Way
from hub.cli.setup.undo import Undo
from hub.cli.setup.verdicts import why_not_served
from hub.control.methods import STATUS


class SetupPlan(Struct, frozen=True):
    """The changes that are to be written, and the way in which the hub is started."""

    imported: list[Write]
    """Files of servers that the hub takes over."""
    secrets: NewSecrets | None
    """Secrets that these refer to, to be kept before."""
    capture: Capture | None
    """The environment of this shell, recorded for servers."""
    installs: list[Plan]
    """The hub's entry in the file of each host."""
    host_removals: HostRemovals
    """The servers that hosts stop starting, if the hub serves it all."""
    start: Way

    @property
    def changes(self) -> bool:
        """True if any file changes."""
        return bool(self.imported or self.capture or self.host_removals.writes or self.added)

    @property
    def added(self) -> list[Plan]:
        """The hosts that get the hub, or another entry of it."""
        return [each for each in self.installs if each.changes]

    @property
    def refused(self) -> list[Plan]:
        """The hosts whose files are left as they are, since they cannot be edited for certain."""
        return [each for each in self.installs if each.did == "refused"]

    def originals(self, place: Place) -> list[Original]:
        """The servers that leave the file of a host, or are switched off there."""
        writes = (write for write in self.host_removals.writes if is_same_file(write.path, place.path))
        return of_host(place, [each for write in writes for each in write.originals])


def upstreams_in(imported: Sequence[Write], machine: Machine) -> dict[str, UpstreamConfig]:
    """The servers of these files, as the hub will have them."""
    found: dict[str, UpstreamConfig] = {}
    for write in imported:
        found |= load_all(write.path, machine.environ, partly=True, texts={write.path: write.after}).config.upstreams
    return found


def plan_installs(places: Sequence[Place], options: Context) -> list[Plan]:
    """Our entry in each file; one that cannot be read is a refusal."""
    machine, records = options.machine, options.records
    hubd, variables = own_command(), variables_to_carry(machine.environ, machine.home)
    found = []
    for place in places:
        installed = records.keys(place.path)
        if installed and KEY not in installed:  # `hubd install --each` put the servers there one by one
            found.append(Plan(place, "unchanged"))
            continue
        entry = stdio_entry(place.host, hubd, variables)
        program = own_program(place, machine.environ)
        try:
            found.append(plan_entries(place, {KEY: entry}, records, program, originals_of(place)))
        except EditError as error:
            found.append(Plan(place, "refused", why=str(error).removeprefix(f"{place.path}: ")))
    return found


LIMIT_S = 60.0
"""Seconds that the hub has to connect servers that are installed already."""


class CarryOut:
    """One plan being carried out, in a `with` block. Whatever ends it before hosts' files are changed is undone."""

    def __init__(self, plan: SetupPlan, options: Context) -> None:
        self._plan = plan
        self._options = options
        self._output: Output = options.output
        self._undo = Undo()
        self._reached_hosts = False
        self.aftermath = "nothing was changed"
        """The state that it leaves if it ends now, for people."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or self._reached_hosts:
            return
        with hold_back():
            failures = self._undo.run()
            self.aftermath = "what could be put back is as it was" if failures else "everything is as it was"
            for failure in failures:
                self._output.fail(failure)

    def serve(self, names: Sequence[str], tried: Collection[str]) -> Served:
        """Write the hub's files, start it, and wait for these servers; of each the reason why it is not served, or "".
        `tried`: those that have worked in this run. Raises KeyboardInterrupt, UsageError, ConfigError, EditError,
        HubNotRunning, ControlFailed: the end of the `with` block undoes it."""
        if self._plan.start == "running":
            self._undo.add("the running hub", start_hub.reload)  # once the files are as they were
        self._keep_secrets()
        with hold_back():
            self._write_own_files()
        start_hub.start(self._plan.start, self._options, self._undo)
        with client() as hub:
            found = watch(hub, names, self._output, limit_s=LIMIT_S, failures=FAILURES, draw=progress)
            return why_not_served(found, tried, hub.request(STATUS))

    def change_hosts(
        self, result: Import, config: HubConfig, places: Sequence[Place], served: Served
    ) -> tuple[HostRemovals, list[Place]]:
        """Put the hub into hosts, and take out of them what it serves. A failure of one file does not stop the others.
        What left, and what stays; the files that were changed. Raises KeyboardInterrupt: all of it was done; EditError:
        no host was changed; the end of the `with` block undoes the rest."""
        with hold_back():
            remember_hosts(result)
            self._reached_hosts, self.aftermath = True, "everything was written"
            changed = self._install(places)
            left = plan_host_removals(result, config, self._options.machine, self._options.records, served=served)
            self._take_out(left, changed)
        for each in left.stays:
            if each.kind == "changed":
                self._output.fail(each.sentence)
        return left, changed

    # --- the hub's own files

    def _keep_secrets(self) -> None:
        """Keep the new secrets. Ctrl-C ends it: a keyring may take its time."""
        new = self._plan.secrets
        if new is not None and new.values:
            self._undo.add("the secrets", new.take_back)
            say_kept(new.keep(), self._output)

    def _write_own_files(self) -> None:
        with lock_edits(state_dir()):
            if (capture := self._plan.capture) is not None:
                write = partial(write_capture, capture, now(), backup_dir())
                self._write(capture.path, write, capture.before, capture.after)
            for each in self._plan.imported:
                before = None if each.before is None else each.before.encode()
                self._write(
                    each.path, partial(write_import_to_files.carry_out, each, now()), before, each.after.encode()
                )

    def _write(self, path: Path, write: Callable[[], Path | None], before: bytes | None, after: bytes) -> None:
        self._say_written(path, self._undo.file(path, write, before=before, after=after))

    def _say_written(self, path: Path, backup: Path | None) -> None:
        self._output.append("files", {"file": str(path), "backup": backup and str(backup)})

    # --- the hosts' files

    def _install(self, places: Sequence[Place]) -> list[Place]:
        output, changed = self._output, []
        with lock_edits(state_dir()):
            for place in places:
                (planned,) = plan_installs([place], self._options)  # in turn: two hosts may have one file
                try:
                    if planned.did == "refused":
                        output.append("hosts", {**as_object(planned, None), "why": planned.why})
                        continue
                    backup = write_plan(planned, self._options.records, self._options.machine)
                    output.append("hosts", as_object(planned, backup))
                    if planned.changes:
                        changed.append(planned.place)
                except EditError as error:
                    output.fail(f"{planned.place.title}: {error}")
        return changed

    def _take_out(self, left: HostRemovals, changed: list[Place]) -> None:
        for write, backup in write_each(left.writes, self._output):
            if write.place is not None and not write.command:
                self._say_written(write.path, backup)
                changed.append(write.place)
