"""All checks."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import structs

from hub.cli.checks import daemons, environment, hosts, servers, stores
from hub.cli.checks.evidence import Examined, Finding, about, join_names, unreadable

CHECKS: Final[tuple[Callable[[Examined], Iterator[Finding]], ...]] = (
    servers.configuration,
    servers.same_server_twice,
    servers.commands,
    servers.working_directories,
    environment.last_words,
    environment.this_shell,
    environment.of_this_shell_only,
    servers.addresses,
    servers.roots,
    stores.store,
    stores.same_names,
    hosts.entries,
    hosts.double_imports,
    hosts.double_projects,
    daemons.daemon,
    daemons.limits,
    daemons.search_mode,
    daemons.profiles,
    daemons.root,
    daemons.upstreams,
    daemons.other_daemons,
    daemons.stale_sockets,
    daemons.leftovers,
    servers.open_files,
    hosts.several_principals,
    stores.secret_files,
    stores.unreadable_files,
)


ADVICE: Final[tuple[Callable[[Examined], Iterator[Finding]], ...]] = (servers.packages_to_pin,)
"""Further checks, for those who ask for advice."""


def findings(examined: Examined, *, strict: bool = False) -> list[Finding]:
    """The findings of all checks, the worst first. A failed server is left out if another check found the cause.

    `strict`: with advice on what works.
    """
    found: list[Finding] = []
    for check in (*CHECKS, *(ADVICE if strict else ())):
        try:
            found.extend(check(examined))
        except OSError as error:  # a file that may not be read; the other checks go on
            found.append(unreadable(error.filename or check.__name__, error.strerror or str(error)))
    causes = (each for each in found if each.level == "problem" and each.check != "upstream")
    explained = {name for each in causes for name in each.names}
    found = [rest for each in found if (rest := _without_explained(each, explained)) is not None]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))


def _without_explained(finding: Finding, explained: set[str]) -> Finding | None:
    """A finding without the servers whose cause another one tells; None: nothing is left of it."""
    if finding.check != "upstream" or explained.isdisjoint(finding.names):
        return finding
    rest = [name for name in finding.names if name not in explained]
    if not rest:
        return None
    what = f"{join_names(rest)}: {finding.what.rpartition(': ')[2]}"
    return structs.replace(finding, what=what, **about(rest))
