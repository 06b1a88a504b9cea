"""`hubd setup`: find what hosts have, try it, ask once, and put the hub between."""

import os
from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from config.atomic_writes import read_file
from config.hosts import servers_in_hub, write_import_to_files
from config.hosts.host_servers import Server
from config.hosts.import_plan import Import
from config.hosts.known_hosts import every_user_file
from config.hosts.removal_choice import drop_changed, plan_host_removals
from config.hosts.secret_literals import NewSecrets
from config.hub_paths import config_file
from config.loading.gather import OWN_VARIABLES
from config.secrets.store import SecretStore
from hub.cli.configuration.env_command import capture_unasked
from hub.cli.context import EX_INTERRUPTED, CommandFailed, Context, Output, UsageError
from hub.cli.hosts.choose_hosts import choose_hosts
from hub.cli.hosts.entries_to_install import say_permissions
from hub.cli.hosts.import_screens import say_elsewhere, say_shared, settle_near_duplicates
from hub.cli.hosts.one_command_at_a_time import in_turn
from hub.cli.hosts.who_runs_servers import reasons, refuse_other
from hub.cli.parser import add
from hub.cli.render.words import count_of
from hub.cli.setup import questions, screens, start_hub
from hub.cli.setup.carry_out import CarryOut, SetupPlan, plan_installs, upstreams_in
from hub.cli.setup.hold_back_signals import as_ctrl_c
from hub.cli.setup.probe import probe
from hub.cli.setup.start_hub import Way
from hub.cli.setup.survey_hosts import Survey, survey_hosts
from hub.cli.setup.verdicts import ServerVerdict, as_left, keep_what_works, rename, verdicts
from hub.control.answers import Status

_MEMBERS: Final = """\
  dry_run  whether it was only tried
  servers  of each server of a host: host, title, server (its name there), did ("works", "in the hub", "sign-in needed",
           "does not work", "left": those three stay with their host), name (the hub's), state, tools, tokens, why
  hosts    of each file of a host: host, title, file, did (as of `hubd install`), backup and diff, without secrets
  secrets  names under which secrets are kept from now on, as by `hubd secret set`
  files    of each other file that was written: file, backup
  hub      how it runs: "service", "background", or "running" before
  undo     the command that undoes it; null: no host is concerned, and `files` has what was there before
  notes    what is worth knowing"""


def add_commands(commands: Any) -> None:
    """`setup`."""
    parser = add(commands, "setup", in_turn(_setup), json=_MEMBERS)
    parser.add_value("hosts", "HOST", "such as claude-desktop; all that are found if none", nargs="*")
    parser.add_flag("--yes", "ask nothing, and take the defaults")
    parser.add_flag("--dry-run", "try the servers, show what would be written, and stop")
    parser.add_flag("--no-service", "start the hub in the background, also where systemd could run it")


def _setup(options: Context, output: Output) -> None:
    journey: _Journey | None = None
    try:
        with as_ctrl_c():
            choose_hosts(options)  # one that is unknown is said first
            if not (options.yes or options.dry_run or output.is_attended()):
                text = "not a terminal: pass --yes to take the defaults, or --dry-run to see what would be written"
                raise UsageError(text)
            journey = _Journey(options)
            journey.run()
    except KeyboardInterrupt:
        work = journey and journey.work
        output.fail(f"interrupted; {work.aftermath if work else 'nothing was changed'}", EX_INTERRUPTED)
        output.exit_with(EX_INTERRUPTED)


class _Journey:
    """One run of the command."""

    def __init__(self, options: Context) -> None:
        self._options = options
        self._output: Output = options.output
        self._machine = options.machine
        if any("\ud800" <= each <= "\udfff" for each in str(self._machine.home)):
            raise UsageError("the path of the home directory is not UTF-8, so no file can name it: set HOME to another")
        self._directory = servers_in_hub.import_directory(None)
        present = servers_in_hub.load_present(None, os.environ)
        self._config, self._environ = present.config, present.environ
        self._own_variables = present.own_lines
        self._known = servers_in_hub.names_by_identity(self._config, self._directory, self._environ)
        self._ours = frozenset(self._known.values())
        self._removed = servers_in_hub.removals_in(self._directory)
        self.work: CarryOut | None = None
        """The writing, once it has begun."""
        if (status := start_hub.status()) is not None:
            refuse_other(status, config_file())

    def run(self) -> None:
        """The whole journey."""
        output, options = self._output, self._options
        output.set(dry_run=options.dry_run, servers=[], hosts=[], files=[], notes=[], undo=screens.UNDO)
        machine = structs.replace(self._machine, environ=self._environ)  # with what `hubd.env` says
        survey = survey_hosts(choose_hosts(options), machine, self._options.records)
        if not survey.places and not survey.unreadable:
            raise CommandFailed("no hosts are found on this machine; name one to set it up anyway")
        output.show(*screens.findings(survey, self._machine.home))
        if not survey.places:
            files = ", ".join(f"{place.path}: {why}" for place, why in survey.unreadable)
            raise CommandFailed(f"{files}; mend that, then run this again; nothing was changed")
        hosts = choose_hosts(options)
        say_shared((place for host in hosts for place in every_user_file(host, self._machine)), output)
        survey = survey.without_refused(plan_installs(survey.places, self._options))
        result = self._take(survey.servers)
        verdicts = self._settle(self._try(result, survey), result)
        verdicts, new = questions.keep_variables(options, result, verdicts, self._own_variables)
        new = self._secrets(result, new)
        way = start_hub.way_to_start(options)
        plan = self._plan(result, new, survey, way)
        output.set(hub=way, undo=screens.undo(plan))
        if not plan.changes and way == "running":
            status = start_hub.status() or Status()
            return output.show("", *screens.all_is_well(verdicts, status.upstreams))
        output.show("", *screens.costs(result, verdicts, survey.places), *screens.all_changes(plan, self._machine.home))
        self._say_rest(plan, result, survey)
        if options.dry_run:
            return
        if questions.may_ask(options) and not questions.write_it(screens.diffs(plan), output):
            raise CommandFailed("nothing was changed")
        self._carry_out(plan, result, survey, verdicts)

    # --- finding and trying

    def _take(self, servers: list[Server]) -> Import:
        """The import of all these servers, without those that the hub could not use."""
        tools = {name: upstream.tools for name, upstream in self._config.upstreams.items()}
        result = Import(self._known, self._config.upstreams, "keep", self._removed, tools)
        for server in servers:
            result.add(server)
        write_import_to_files.plan_files(result, self._directory, self._environ)
        return result

    def _try(self, result: Import, survey: Survey) -> list[ServerVerdict]:
        """Try the servers; the verdict on each. What is left in `result` is what the hub is to have."""
        servers = [(name, server) for name, server in result.taken if not server.off]
        head = f"Trying {count_of(len(servers), 'server')}. Nothing is changed yet; Ctrl-C leaves all as it is."
        outcomes = probe(servers, self._output, variables=self._variables(result), head=head)
        found = verdicts(result, survey.skipped, self._ours, outcomes)
        self._output.show("", *screens.results(found))
        keep_what_works(result, self._ours, outcomes)
        return found

    def _variables(self, result: Import) -> bytes:
        """The `hubd.env` that there would be, so that servers are tried with what the hub will give them."""
        imported = write_import_to_files.plan_files(result, self._directory, self._environ)
        capture, _ = capture_unasked(None, upstreams_in(imported, self._machine))
        if capture is not None:
            return capture.after
        return read_file(self._directory.with_name(OWN_VARIABLES), trusted=True) or b""

    def _settle(self, found: list[ServerVerdict], result: Import) -> list[ServerVerdict]:
        """Ask about servers that are probably the same; the verdicts then."""
        costs = {each.name: screens.offer(each) for each in found}
        settle_near_duplicates(self._options, result, self._config, costs)
        found = rename(found, result)
        self._output.set(servers=[each.as_object() for each in found])
        return found

    def _secrets(self, result: Import, new: NewSecrets | None) -> NewSecrets | None:
        """Put references in the places of secrets, unless somebody is asked and says no; what is to be kept, besides
        what `new` has already."""
        held = [(name, server) for name, server in result.taken if server.spots()]
        if not held:
            return new
        self._output.show("", *screens.secrets(held))
        if questions.may_ask(self._options) and not questions.move_secrets():
            return new
        new = new or NewSecrets(SecretStore.open())
        result.store_literals(new)
        return new

    def _import(self, result: Import, new: NewSecrets | None) -> list[write_import_to_files.Write]:
        imported = write_import_to_files.plan_files(result, self._directory, self._environ)
        if new is not None:
            new.forget_unused([write.after for write in imported])
            self._output.set(secrets=sorted(new.values))
        return imported

    def _plan(self, result: Import, new: NewSecrets | None, survey: Survey, way: Way) -> SetupPlan:
        imported = self._import(result, new)
        names = [name for name, _ in result.all]
        served = dict.fromkeys(names, "")
        if (status := start_hub.status()) is not None:
            served |= reasons([name for name in served if name in self._ours], status)
        host_removals = plan_host_removals(
            result, self._config, self._machine, self._options.records, served=served, without_hub=True
        )
        installs = plan_installs(survey.places, self._options)
        capture, why = capture_unasked(None, upstreams_in(imported, self._machine))
        for text in [why] if capture is None else screens.omissions(capture, self._machine.environ.get("PATH", "")):
            if text:
                self._output.note(text)
        return SetupPlan(imported, new, capture, installs, host_removals, way)

    def _say_rest(self, plan: SetupPlan, result: Import, survey: Survey) -> None:
        """Report what setup leaves to the user: rules of hosts that name tools, and servers of single folders."""
        upstreams = {**self._config.upstreams, **upstreams_in(plan.imported, self._machine)}
        config = structs.replace(self._config, upstreams=upstreams)
        taken = {server.identity: name for name, server in result.all}
        say_permissions(survey.places, config, {**self._known, **taken}, self._options)
        say_elsewhere(self._options.replace(project=None), self._known)

    # --- doing

    def _carry_out(self, plan: SetupPlan, result: Import, survey: Survey, verdicts: Sequence[ServerVerdict]) -> None:
        output = self._output
        if stays := drop_changed(result):
            plan = structs.replace(plan, imported=self._import(result, plan.secrets))
            verdicts = as_left(verdicts, stays)
            output.set(servers=[each.as_object() for each in verdicts])
            for each in stays:
                output.fail(each.sentence)
        self.work = work = CarryOut(plan, self._options)
        names = [name for name, _ in result.all]
        tried = {name for name, _ in result.taken} - self._ours  # only what worked is left of these
        try:
            with work:
                served = work.serve(names, tried)
                left, changed = work.change_hosts(result, self._config, survey.places, served)
        except UsageError as error:
            raise CommandFailed(f"{error}; {work.aftermath}") from None
        start_hub.say_start(plan.start, output)
        output.show("", *screens.last_lines(plan, verdicts, served, left, changed))
