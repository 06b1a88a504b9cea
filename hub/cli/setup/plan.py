"""All that a setup would write: the hub's own files, and the files of hosts."""

from collections.abc import Sequence

from msgspec import Struct

from config.editing.beside_main import Capture
from config.errors import EditError
from config.hosts.entry import KEY, stdio_entry, variables_to_carry
from config.hosts.facts import Machine, Place
from config.hosts.import_choice import Import
from config.hosts.import_writing import Write
from config.hosts.install import Plan, own_program, plan_install
from config.hosts.installed import Records
from config.hosts.leaving import Leaving, Served, leaving
from config.hosts.originals import Original, is_same_file, of_host
from config.hosts.secret_literals import NewSecrets
from config.loading.assemble import load_all
from config.settings import HubConfig, UpstreamConfig
from hub.cli.configuration.environment import capture_unasked
from hub.cli.hosts.changes import originals_of
from hub.cli.setup.running_hub import Way
from hub.cli.subcommand import own_command


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
    leaving: Leaving
    """The servers that hosts stop starting, if the hub serves it all."""
    start: Way

    @property
    def changes(self) -> bool:
        """True if any file changes."""
        return bool(self.imported or self.capture or self.leaving.writes or self.leaving.programs or self.added)

    @property
    def added(self) -> list[Plan]:
        """The hosts that get the hub, or another entry of it."""
        return [each for each in self.installs if each.changes]

    @property
    def refused(self) -> list[Plan]:
        """The hosts whose files are left as they are, since they cannot be edited for certain."""
        return [each for each in self.installs if each.did == "refused"]

    def leaves(self, place: Place) -> list[str]:
        """The servers that leave the file of a host."""
        return [each.key for each in self._originals(place) if not each.off]

    def switches_off(self, place: Place) -> list[str]:
        """The servers that stay in the file of a host, switched off."""
        return [each.key for each in self._originals(place) if each.off]

    def _originals(self, place: Place) -> list[Original]:
        writes, calls = self.leaving.writes, self.leaving.programs
        found = [each for write in writes if is_same_file(write.path, place.path) for each in write.originals]
        return of_host(place, [*found, *(call.original for call in calls if call.path == place.path)])


def plan_capture(imported: Sequence[Write], machine: Machine) -> tuple[Capture | None, str]:
    """The record of this shell that serves these servers, too; None, and perhaps the reason, if there is none to make.

    Raises:
        EditError: hubd.env cannot be read.
    """
    return capture_unasked(None, upstreams_in(imported, machine))


def upstreams_in(imported: Sequence[Write], machine: Machine) -> dict[str, UpstreamConfig]:
    """The servers of these files, as the hub will have them."""
    found: dict[str, UpstreamConfig] = {}
    for write in imported:
        found |= load_all(write.path, machine.environ, partly=True, texts={write.path: write.after}).config.upstreams
    return found


def plan_installs(places: Sequence[Place], machine: Machine, records: Records) -> list[Plan]:
    """Our entry in each file; one that cannot be read is a refusal."""
    hubd, variables = own_command(), variables_to_carry(machine.environ, machine.home)
    found = []
    for place in places:
        installed = records.keys(place.path)
        if installed and KEY not in installed:  # `hubd install --each` put the servers there one by one
            found.append(Plan(place, "unchanged"))
            continue
        entry = stdio_entry(place.host, hubd, variables)
        program = own_program(place.host, machine.environ)
        try:
            found.append(plan_install(place, entry, records, program, originals_of(place)))
        except EditError as error:
            found.append(Plan(place, "refused", why=str(error).removeprefix(f"{place.path}: ")))
    return found


def what_leaves(
    result: Import, config: HubConfig, machine: Machine, records: Records, served: Served, *, without_hub: bool = True
) -> Leaving:
    """The servers that hosts stop starting. `served`: why the hub does not serve a server, "": it does; `without_hub`:
    hosts count that do not have the hub yet.

    Raises:
        EditError: a file cannot be read.
    """
    return leaving(result, config, machine, records, served=served, without_hub=without_hub)
