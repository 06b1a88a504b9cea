"""Hosts and search mode: when it is decided which of them find tools by searching.

Decided at start and after each change of the configuration, once all servers have said what they offer, and when the
first host of a label comes. In between it stays as it is, whatever servers come and go; and over restarts of the hub.
"""

import logging
from typing import Final

import trio

from config.saved_state import Memory
from hub.catalog.search.modes import HostLimits, SearchModes
from hub.catalog.view import EVERYTHING, View
from hub.downstream.hosts import Hosts
from hub.projects.profile_hosts import ProfileHosts
from hub.routing.live_catalog import LiveCatalog

log = logging.getLogger("hubd.host")
SECTION: Final = "search"
"""Of the memory: the hosts in search mode, each with its view."""
MAX_KEPT: Final = 1_000


class SearchHosts:
    """Decides the `modes` of hosts. `run` does so when it is time."""

    def __init__(
        self, modes: SearchModes, live: LiveCatalog, hosts: Hosts, profiles: ProfileHosts, memory: Memory
    ) -> None:
        self._modes = modes
        self._live = live
        self._hosts = hosts
        self._profiles = profiles
        self._memory = memory
        self._due = trio.Event()
        self._due.set()
        live.vary(on=modes.in_use)
        hosts.before_first(self._first_comes)

    def __repr__(self) -> str:
        return f"<SearchHosts by {self._modes!r}>"

    def configuration_changed(self) -> None:
        """Decide anew, once all servers have said what they offer."""
        self._live.vary(on=self._modes.in_use)
        self._due.set()

    async def run(self) -> None:
        """Decide whenever it is due, for ever."""
        while True:
            await self._due.wait()
            self._due = trio.Event()
            await self._live.wait_complete()
            self.decide()

    def decide(self) -> None:
        """Decide for all hosts that are attached, or were."""
        asked = {(host.view.base, host.identity.host, host.named) for host in self._hosts}
        asked |= {(EVERYTHING, label, "") for label in self._hosts.known_labels}
        changes = [self._decide_one(*each) for each in sorted(asked, key=str)]
        if any(changes):
            self._live.vary(on=self._modes.in_use)
            self._profiles.show_modes()

    def _first_comes(self, place: View, label: str, named: str) -> None:
        """Decide for a host that is the first of its label, so that nobody's list changes by it."""
        if self._live.complete and self._decide_one(place, label, named):
            self._live.vary(on=self._modes.in_use)
            self._profiles.show_modes()

    def _decide_one(self, place: View, label: str, named: str) -> bool:
        """Decide for a host; True if something changed."""
        view = self._hosts.profiles.choose_whole(place, label, named)
        if not self._modes.is_open(view, label):
            return False
        cost = self._live.of(view).shown_cost
        if (text := self._modes.decide(view, label, cost.tools, cost.tokens)) is None:
            return False
        log.info("%s", text)
        self._memory.put(SECTION, "on", self._modes.remembered[:MAX_KEPT])
        self._memory.save_soon()
        return True


def kept_modes(memory: Memory) -> SearchModes:
    """The search modes that were decided before, with what is known of hosts."""
    kept = memory.get(SECTION, "on")
    known = [each for each in kept if isinstance(each, str)] if isinstance(kept, list) else []
    return SearchModes(limits_of, kept=known[:MAX_KEPT])


def limits_of(label: str) -> HostLimits | None:
    """The limits of a host with this label; None, unless it is known to show its model all tools."""
    if not label:
        return None
    from config.hosts.facts import all_hosts  # not above: it reads a file, and few hubs have a host with a label

    host = all_hosts().get(label)
    return None if host is None or host.defers is not False else HostLimits(host.tool_limit, host.spare_tokens)
