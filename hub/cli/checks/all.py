"""All checks."""

from collections.abc import Callable, Iterator
from typing import Final

from hub.cli.checks import daemons, hosts, servers, stores
from hub.cli.checks.evidence import Examined, Finding, unreadable

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
    daemons.root,
    daemons.upstreams,
    daemons.other_daemons,
    daemons.stale_sockets,
    daemons.left_behind,
    servers.open_files,
    stores.secret_files,
    stores.unreadable_files,
    servers.unpinned_packages,
)


def findings(examined: Examined) -> list[Finding]:
    """The findings of all checks, the worst first. A failed server is left out if another check found the cause."""
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check(examined))
        except OSError as error:  # a file that may not be read; the other checks go on
            found.append(unreadable(error.filename or check.__name__, error.strerror or str(error)))
    explained = {each.server for each in found if each.level == "problem" and each.check != "upstream"}
    found = [each for each in found if each.check != "upstream" or each.server not in explained]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))
