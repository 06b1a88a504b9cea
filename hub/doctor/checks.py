"""All checks."""

from collections.abc import Callable, Iterator
from typing import Final

from hub.doctor import daemons, hosts, servers, stores
from hub.doctor.examined import Examined, Finding

CHECKS: Final[tuple[Callable[[Examined], Iterator[Finding]], ...]] = (
    servers.configuration,
    servers.same_server_twice,
    servers.commands,
    servers.working_directories,
    servers.addresses,
    stores.store,
    stores.same_names,
    hosts.entries,
    hosts.double_imports,
    daemons.daemon,
    daemons.other_daemons,
    daemons.stale_sockets,
    daemons.left_behind,
    servers.open_files,
    stores.secret_files,
    servers.unpinned_packages,
)


def findings(examined: Examined) -> list[Finding]:
    """What all checks find, the worst first."""
    found = [finding for check in CHECKS for finding in check(examined)]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))
