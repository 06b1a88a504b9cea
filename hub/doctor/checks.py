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
    hosts.double_projects,
    daemons.daemon,
    daemons.upstreams,
    daemons.other_daemons,
    daemons.stale_sockets,
    daemons.left_behind,
    servers.open_files,
    stores.secret_files,
    servers.unpinned_packages,
)


def findings(examined: Examined) -> list[Finding]:
    """What all checks find, the worst first. That a server failed is left out if another check found out why."""
    found = [finding for check in CHECKS for finding in check(examined)]
    explained = {each.server for each in found if each.level == "problem" and each.check != "upstream"}
    found = [each for each in found if each.check != "upstream" or each.server not in explained]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))
