"""Attached hosts: a `Host` for each legacy session or line connection, all of them in `Hosts`."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import trio

from hub.bridge.url_elicitation import PageVisits
from hub.catalog.profiles.choice import ProfileChoice
from hub.catalog.view import View
from hub.control.answers import HostRow
from hub.downstream.host import Host
from hub.downstream.running_requests import RunningRequests
from hub.link.budget import Budget
from hub.link.waiting import DirtyFlag
from hub.wire.jsonrpc import encode_notification, peek_object, peek_str, raw
from hub.wire.mcp import ELICITED, LIST_CHANGED, Kind

PARK_TTL_S: Final = 900.0
MAX_LABELS: Final = 1_000
"""Labels of hosts that are known at a time."""
MAX_NAME: Final = 100
"""Characters shown of the name that a host gives itself."""


class Workplaces(Protocol):
    """Gives hosts that work in a project its view; `hub.projects.projects.Projects` is one. No method raises."""

    async def arrived(self, host: Host) -> None:
        """A host with a known `workplace` is about to be heard. Cancellation: it sees what everybody sees."""
        ...

    def opened(self, host: Host) -> None:
        """The handshake of `host` is complete, or its roots have changed."""
        ...

    async def returned(self, host: Host) -> None:
        """A host that was at work in `workplace` before the hub restarted is about to be heard again; its roots may say
        otherwise. Cancellation: as for `arrived`."""
        ...

    async def placed(self, host: Host) -> None:
        """Wait until `host`, if it is being asked where it works, has said so, or says nothing."""
        ...

    def left(self, host: Host) -> None: ...


OnFirst = Callable[[View, str, str], None]
"""Told of the first host of a label: its place, its label, and the profile that it names."""


def nobody_comes(place: View, label: str, named: str) -> None:
    """Do nothing."""


class Hosts:
    """All attached hosts, and the running requests of all hosts.

    `park_ttl_s`: how long a question waits for a host's answer.
    """

    def __init__(self, park_ttl_s: float = PARK_TTL_S, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.park_ttl_s = park_ttl_s
        self.requests = RunningRequests()
        self.asks_as = f"hub-{secrets.token_hex(4)}"
        """Prefix of the ids of questions, another in each run: a late answer to an earlier hub matches no question."""
        self.visits = PageVisits()
        self.list_changes = DirtyFlag()
        """Set whenever hosts are told that a list has changed."""
        self.workplaces: Workplaces | None = None
        self.profiles = ProfileChoice({})
        """The profiles that hosts are shown."""
        self.known_labels: set[str] = set()
        """Labels of hosts that there were."""
        self._on_first: OnFirst = nobody_comes
        self._attached: dict[str, Host] = {}

    def __repr__(self) -> str:
        return f"<Hosts [{len(self._attached)} attached, {self.requests.count} requests in flight]>"

    def __len__(self) -> int:
        return len(self._attached)

    def adjust(self, park_ttl_s: float) -> None:
        """Set how long questions wait for an answer, for hosts to come."""
        self.park_ttl_s = park_ttl_s

    def follow(self, workplaces: Workplaces) -> None:
        """Tell `workplaces` where hosts work, from now on."""
        self.workplaces = workplaces

    def choose_by(self, profiles: ProfileChoice) -> None:
        """Show hosts to come what `profiles` give them."""
        self.profiles = profiles

    def before_first(self, on_first: OnFirst) -> None:
        """Call `on_first` before a host is given its view, while no other of its label is attached, and when one comes
        to a place where no other of its label is."""
        self._on_first = on_first

    def host_comes(self, place: View, label: str, named: str) -> None:
        """A host with this label is about to be given its view at `place`; `named`: as for `ProfileChoice.choose`."""
        if label not in self.known_labels:
            if len(self.known_labels) >= MAX_LABELS:
                self.known_labels.clear()
            self.known_labels.add(label)
        if label and not any(host.identity.host == label for host in self._attached.values()):
            self._on_first(place, label, named)

    def host_moves(self, host: Host) -> None:
        """A host is shown another place from now on."""
        label, place = host.identity.host, host.view.base
        if label and not any(
            each is not host and each.identity.host == label and each.view.base == place
            for each in self._attached.values()
        ):
            self._on_first(place, label, host.named)

    def add(self, host: Host) -> None:
        """Attach a host. `remove` must follow."""
        self._attached[host.id] = host

    def remove(self, host: Host) -> None:
        """Detach a host, if it is attached."""
        if self._attached.pop(host.id, None) and self.workplaces is not None:
            self.workplaces.left(host)

    def __iter__(self) -> Iterator[Host]:
        return iter(list(self._attached.values()))

    def list_changed(self, kinds: Iterable[Kind], view: View) -> None:
        """Tell every initialised host that is shown `view` which lists differ from what it may have seen."""
        messages = _messages(kinds)
        self.list_changes.set()
        for host in list(self._attached.values()):
            if host.view == view:
                host.lists_changed(messages)

    def elicited(self, upstream: str, id: str) -> None:
        """Tell the hosts that `upstream` sent to the page `id`, and no others, that the visit is done."""
        ours, conversations = self.visits.on_visit_done(upstream, id)
        for host in list(self._attached.values()):
            if host.open and host.conversation in conversations:
                host.tell(f"{ELICITED} {ours}", encode_notification(ELICITED, {"elicitationId": raw(ours)}))

    def move(self, host: Host, view: View, kinds: Iterable[Kind]) -> None:
        """Show a host another view, in which lists of these kinds differ from what it may have seen."""
        host.view = view
        self.list_changes.set()
        if messages := _messages(kinds):
            host.lists_changed(messages)

    def log_levels(self) -> list[str]:
        """The levels that hosts of legacy sessions have set."""
        return [host.log_level for host in self._attached.values() if host.log_level is not None]

    def status(self) -> list[HostRow]:
        """Status rows of the attached hosts."""
        now = trio.current_time()
        return [_row(host, now) for host in self._attached.values()]


def _messages(kinds: Iterable[Kind]) -> list[tuple[str, bytes]]:
    """The notifications that lists of these kinds have changed, by method."""
    methods = [method for method, concerned in LIST_CHANGED.items() if set(concerned) & set(kinds)]
    return [(method, encode_notification(method, {})) for method in methods]


def _row(host: Host, now: float) -> HostRow:
    """Its row in `hubd status`."""
    info = peek_object(host.client_info)
    name = peek_str(info.get("title")) or peek_str(info.get("name")) or host.identity.host
    return HostRow(
        host=name[:MAX_NAME],
        label=host.identity.host,
        principal=host.identity.principal,
        transport=host.transport,
        version=host.version or None,
        endpoint=host.view.path,
        profile=host.view.profile or None,
        search=host.view.search,
        attached_s=round(now - host.since, 1),
        idle_s=0.0 if host.calls else round(now - host.seen, 1),
        in_flight=len(host.calls),
        asked=len(host.asking),
        listening=host.hears or bool(host.listens),
    )
