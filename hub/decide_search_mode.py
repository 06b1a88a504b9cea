"""Which attached hosts find tools by searching, since there are more than they take: decided when a host comes and when
the tools change, and remembered."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import trio

from config.remembered_facts import Memory
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.profiles.search_modes import HostLimits, SearchModes
from hub.downstream.host_conversations import Hosts
from hub.host_views import HostViews
from hub.link.call_interface import OWNER, Identity
from hub.routing.live_catalog import LiveCatalog
from upstreams.lifecycle import State

log = logging.getLogger("hubd.host")

SECTION: Final = "search"
"""Of the memory: the hosts in search mode, each with its view."""
MAX_KEPT: Final = 1_000
Asked = tuple[View, str, str]
"""A host for which it is decided: its place, its label, and the profile that it named."""


@dataclass(eq=False, repr=False)
class SearchDecisions:
    """Decides which hosts find tools by searching (`modes`). `run` does so when it is time."""

    _modes: SearchModes
    _live: LiveCatalog
    _hosts: Hosts
    _views: HostViews
    _memory: Memory

    def __post_init__(self) -> None:
        self._due = trio.Event()
        self._all_due = False
        """True if it is to be decided for all hosts, and not only for those that wait."""
        self._waiting: set[Asked] = set()
        """Hosts that came first of their label while some server had not said what it offers."""
        self._unheard: set[str] = set()
        """Servers that had failed before anybody knew what they offer, when the catalogues were made."""
        self._without: set[Asked] = set()
        """Hosts for which it was decided without some of these."""
        self.configuration_changed()
        self._hosts.before_first(self._first_comes)

    def configuration_changed(self) -> None:
        """Decide anew, once all servers have said what they offer."""
        self._live.vary(on=self._modes.in_use)
        self._all_due = True
        self._due.set()

    async def run(self) -> None:
        """Decide whenever it is due, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._await_unheard)
            while True:
                await self._due.wait()
                self._due = trio.Event()
                await self._live.wait_complete()
                self.decide()

    async def _await_unheard(self) -> None:
        """Have it decided again when a server that had failed has said what it offers."""
        while True:
            await self._live.rebuilt.wait()
            before, self._unheard = self._unheard, self._find_unheard()
            if self._without and before - self._unheard:
                self._waiting, self._without = self._waiting | self._without, set()
                self._due.set()

    def _find_unheard(self) -> set[str]:
        upstreams = self._live.upstreams.items()
        return {name for name, each in upstreams if each.state is not State.DISABLED and not each.is_anything_known}

    def decide(self) -> None:
        """Decide for the hosts that wait for it; if it is due for all, for those that are attached, or were, too."""
        asked, self._waiting = self._waiting, set()
        if self._all_due:
            self._all_due = False
            asked |= {(host.view.base, host.identity.host, host.named) for host in self._hosts}
            asked |= {(EVERYTHING, label, "") for label in self._hosts.known_labels}
        self._decide_each(sorted(asked, key=str))

    def _first_comes(self, place: View, label: str, named: str) -> None:
        """Decide for a host that is the first of its label there, so that nobody else's list changes by it. What is
        shown while servers start for the first time says nothing: then later."""
        if self._live.complete:
            self._decide_each([(place, label, named)])
            return
        view = self._hosts.profiles.choose_whole(place, label, named)
        if self._modes.is_open(view, label) and len(self._waiting) < MAX_KEPT:
            self._waiting.add((place, label, named))
            self._due.set()

    def _is_shown(self, view: View) -> bool:
        """False if its project has ended meanwhile, or its profile is no more: that it is empty says nothing then."""
        is_profile = not view.profile or self._live.profile_of(view) is not None
        return is_profile and (view.base == EVERYTHING or view.base in self._live.servers.projects)

    def _decide_each(self, asked: Iterable[Asked]) -> None:
        asked = list(asked)
        if (self._unheard or self._find_unheard()) and len(self._without) < MAX_KEPT:
            self._without.update(asked)
        changes = [self._decide_one(*each) for each in asked]
        if any(changes):
            self._live.vary(on=self._modes.in_use)
            self._views.show_modes()

    def _decide_one(self, place: View, label: str, named: str) -> bool:
        """Decide for a host; True if something changed."""
        view = self._hosts.profiles.choose_whole(place, label, named)
        if not (self._is_shown(view) and self._modes.is_open(view, label)):
            return False
        cost = self._live.of(self._hosts.judge.view_for(view, Identity(OWNER, label))).shown_cost
        if (text := self._modes.decide(view, label, cost.tools, cost.tokens)) is None:
            return False
        log.info("%s", text)
        self._memory.put(SECTION, "on", self._modes.remembered[:MAX_KEPT])
        self._memory.save_soon()
        return True


def load_modes(memory: Memory) -> SearchModes:
    """The search modes that were decided before, with what is known of hosts."""
    kept = memory.get(SECTION, "on")
    known = [each for each in kept if isinstance(each, str)] if isinstance(kept, list) else []
    return SearchModes(limits_of, kept=known[:MAX_KEPT])


def limits_of(label: str) -> HostLimits | None:
    """The limits of a host with this label; None, unless it is known to show its model all tools."""
    if not label:
        return None
    from config.hosts.known_hosts import all_hosts  # not above: it reads a file, and few hubs have a host with a label

    host = all_hosts().get(label)
    return None if host is None or host.defers is not False else HostLimits(host.tool_limit, host.spare_tokens)
