"""`hubd setup`: find what hosts have, try it, ask once, and put the hub between."""

import argparse
import os
from os import EX_OK
from typing import TYPE_CHECKING, Any, Final

from hub.cli.subcommand import EX_FAILED, EX_INTERRUPTED, Output, UsageError, add

if TYPE_CHECKING:
    from config.hosts.import_choice import Import
    from hub.cli.server_watch import ServerOutcome

_MEMBERS: Final = """\
  dry_run  whether it was only tried
  servers  of each server of a host: host, title, server (its name there), did ("works", "in the hub", "sign-in needed",
           "does not work", "left": those three stay with their host), name (the hub's), state, tools, tokens, why
  hosts    of each file of a host: host, title, file, did (as of `hubd install`), backup and diff, without secrets
  files    of each other file that was written: file, backup
  hub      how it runs: "service", "background", or "running" before
  undo     the command that undoes it
  notes    what is worth knowing"""


def add_commands(commands: Any) -> None:
    """`setup`."""
    text = "put the hub between your hosts and their servers: find, try, ask once, done"
    parser = add(commands, "setup", _setup, text, json=_MEMBERS)
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="such as claude-desktop; all that are found if none")
    parser.add_argument("--yes", action="store_true", help="ask nothing, and take the defaults")
    parser.add_argument("--dry-run", action="store_true", help="try the servers, show what would be written, and stop")
    parser.add_argument(
        "--no-service", action="store_true", help="start the hub in the background, also where systemd could run it"
    )


def _setup(options: argparse.Namespace) -> int:
    from hub.cli.setup.interrupts import as_ctrl_c

    output: Output = options.output
    if not (options.yes or options.dry_run or output.is_attended()):
        raise UsageError("not a terminal: pass --yes to take the defaults, or --dry-run to see what would be written")
    journey = _Journey(options)
    try:
        with as_ctrl_c():
            return journey.run()
    except KeyboardInterrupt:
        output.fail(EX_INTERRUPTED, f"interrupted; {journey.state_of_files}")
        return EX_INTERRUPTED


class _Journey:
    """One run of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        from config.hosts.facts import Machine
        from config.hosts.import_files import imported_dir, known, removed
        from config.hosts.install import Records
        from config.hub_paths import config_file, installed_path
        from config.loading.assemble import load_all
        from hub.cli.setup.running_hub import refuse_other_hub

        self._options = options
        self._output: Output = options.output
        self._machine = Machine.this()
        self._records = Records(installed_path())
        self._directory = imported_dir(None)
        self._config = load_all(None, os.environ).config
        self._ours = known(self._config, self._directory, os.environ)
        self._removed = removed(self._directory)
        self.state_of_files = "nothing was changed"
        """What an interruption leaves, for people."""
        refuse_other_hub(config_file())

    def run(self) -> int:
        """The whole journey; the exit code."""
        from hub.cli.host_selection import chosen_hosts
        from hub.cli.setup import plan, questions, running_hub, screens
        from hub.cli.setup.carry_out import CarryOut
        from hub.cli.setup.outcomes import keep_what_works, verdicts
        from hub.cli.setup.survey import survey_hosts

        output, options, machine = self._output, self._options, self._machine
        output.set(dry_run=options.dry_run, servers=[], hosts=[], files=[], notes=[], undo=screens.UNDO)
        survey = survey_hosts(chosen_hosts(options, machine), machine, self._records)
        if not survey.places and not survey.unreadable:
            return output.fail(EX_FAILED, "no hosts are found on this machine; name one to set it up anyway")
        self._show(*screens.found(survey, machine.home))
        result = self._take(survey.servers)
        outcomes = self._tried(result)
        ours = set(self._ours.values())
        found = verdicts(result, survey.skipped, ours, outcomes)
        output.set(servers=[each.as_object() for each in found])
        self._show("", *screens.tried(found))
        keep_what_works(result, ours, outcomes, {})
        way = running_hub.way_to_start(options)
        all = plan.planned(result, self._config, machine, self._records, survey.places, self._directory, way)
        names = list(dict.fromkeys(name for name, _ in (*result.taken, *result.known)))
        if not all.changes and way == "running":
            self._show("", "All is well: there is nothing to change.")
            output.set(hub=way)
            return EX_OK
        self._show("", *screens.all_changes(all, [], [], machine.home))
        if options.dry_run:
            output.set(hub=way)
            return EX_OK
        if questions.may_ask(options) and not questions.write_it([], output):
            return output.fail(EX_FAILED, "nothing was changed")
        work = CarryOut(all, options)
        served = work.serve(names)
        self.state_of_files = "the setup is complete"
        code, left, changed = work.change_hosts(result, self._config, machine, self._records, survey.places, served)
        for sentence in left.sentences:
            output.note(sentence)
        running_hub.say_start(way, output)
        self._show("", *screens.done(found, served, len(left.writes), changed))
        return code

    def _show(self, *blocks: Any) -> None:
        if not self._output.json:
            self._output.screen.show(*blocks)

    def _take(self, servers: "list[Any]") -> "Import":
        """The import of all these servers, without those that the hub could not use."""
        from config.hosts.import_choice import Import
        from config.hosts.import_files import imported_files

        result = Import(self._ours, self._config.upstreams, "keep", self._removed)
        for server in servers:
            result.add(server)
        imported_files(result, self._directory, os.environ)
        return result

    def _tried(self, result: "Import") -> "dict[str, ServerOutcome]":
        from hub.cli.setup.probe import probe

        servers = [(name, server) for name, server in result.taken if not server.off]
        count = f"{len(servers)} server{'s' * (len(servers) != 1)}"
        return probe(servers, self._output, head=f"Trying {count}. Nothing is changed yet; Ctrl-C leaves all as it is.")
