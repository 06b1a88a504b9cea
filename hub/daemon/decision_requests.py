"""Requests of the command line about what a person decides: calls that wait, and what servers have changed.

A yes is for a person to give: it is refused to programs of hosts and of servers, which descend from what attached a
host, or from the hub. A no is taken from everybody. What a host approves for itself in the form that it shows is its
user's affair.
"""

import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import trio
from msgspec import structs

from hub.app import Hub
from hub.control import approval_messages as messages
from hub.control.pin_messages import PinnedServer
from hub.control.server import A_PERSON, asker
from hub.link.bounded_dict import BoundedDict
from hub.link.hub_errors import Executed, HubError, UpstreamUnavailable
from hub.linux.processes import PROC, Process, ancestors, find_process, find_program, find_stat
from hub.linux.socket_tables import find_clients
from hub.rules.fingerprints import key_of
from hub.wire.mcp import Kind

if TYPE_CHECKING:
    from hub.rules.approvals.approvals import Approvals

log = logging.getLogger("hubd")
MAX_CLIENTS: Final = 256
"""Programs that are remembered."""
MIN_NAME: Final = 6
"""Characters of an own name of a tool by which it is recognised in texts of other servers."""


class OnlyAPerson(HubError):
    """A program asks for what only a person may do."""

    kind = "denied"
    executed = Executed.NO


class DecisionRequests:
    """Carries them out, by their names in `hub.control.methods`. `shims`: the processes by which hosts are attached;
    `port`: where they are served by HTTP."""

    def __init__(
        self, hub: Hub, shims: Callable[[], Iterable[Process]] = tuple, port: Callable[[], int] = lambda: 0
    ) -> None:
        self._hub = hub
        self._shims = shims
        self._port = port
        self._clients: BoundedDict[Process, None] = BoundedDict(MAX_CLIENTS)
        """Programs that were connected by HTTP when a call needed a yes."""
        hub.look_by(self._look_around)

    @property
    def _approvals(self) -> "Approvals":
        return self._hub.approvals

    async def approvals(self, follow: bool = False) -> AsyncGenerator[messages.ApprovalList, None]:
        """All requests and approvals; with `follow` then, for ever, all of them whenever something changes. Meanwhile
        calls wait for a decision."""
        approvals = self._approvals
        if not follow:
            yield approvals.list_all()
            return
        with approvals.watch():
            while True:
                edition = approvals.edition
                yield approvals.list_all()
                while approvals.edition == edition:
                    await approvals.changed.wait()

    async def approval_show(self, id: str) -> messages.ShownRequest:
        """One request, with all of its arguments. Raises HubError: there is none of this id."""
        return self._approvals.show(id)

    async def approval_give(
        self, id: str, lasting: Literal["once", "session", "hour", "always"] = "once"
    ) -> messages.DecidedRequest:
        """Approve a request. Raises HubError: there is none of this id, or no person asks for that."""
        request = self._approvals.find(id)
        await self._demand_person(id, partial(self._approvals.write_down, "refuse", request.wish, request=id))
        waiting = request.waiting
        request, lasts = await self._approvals.approve(id, lasting)
        return messages.DecidedRequest(id, request.wish.subject.host, request.wish.exposed, lasts, waiting)

    async def approval_deny(self, id: str, heard: bool = False) -> messages.DecidedRequest:
        """Deny a request; `heard`: whoever called knows. Raises HubError: there is none of this id."""
        waiting = self._approvals.find(id).waiting
        request = self._approvals.deny(id, is_heard=heard)
        return messages.DecidedRequest(id, request.wish.subject.host, request.wish.exposed, "", waiting)

    async def approval_revoke(self, id: str = "", tool: str = "", all: bool = False) -> list[str]:
        """End the approval of this id, those of tools with names like `tool`, or all; the names that they were for.
        Raises HubError: there are none."""
        return [grant.exposed for grant in await self._approvals.revoke(id, tool, all=all)]

    # --- pins

    async def pins(self, name: str | None = None, shows: bool = False) -> list[PinnedServer]:
        """All servers and their pins, or one: by its name, or by the visible name of a tool or prompt. `shows`:
        with all that differs, for people.
        Raises: UpstreamUnavailable, if there is no such server."""
        pins = self._hub.pins
        if name is None:
            return [pins.describe(each, shows=shows) for each in self._hub.live.upstreams]
        server, item = self._find(name)
        found = pins.describe(server, shows=shows, others=frozenset(self._names_beside(server)) if shows else ())
        return [structs.replace(found, item=item)]

    async def approve_pins(self, name: str, state: str, item: str = "") -> int:
        """Approve a server as it is listed in `state`, or one of its definitions; how many were not approved before.
        Raises: HubError, if it lists something else by now, or a program of a host or server asks."""
        await self._demand_person(name, partial(self._hub.audit.note, "refuse", name=name, m="approve"))
        return await self._hub.pins.approve(name, state, item)

    async def export_pins(self) -> str:
        """The content of a file for `pins_file` of what was approved of all servers of the user; "": nothing was."""
        return self._hub.pins.export(self._hub.config.upstreams)

    def _find(self, name: str) -> tuple[str, str]:
        """The server of this name, or the server and key of what is called so."""
        upstreams = self._hub.live.upstreams
        if name in upstreams:
            return name, ""
        for kind in (Kind.TOOL, Kind.PROMPT):
            if (route := self._hub.live.everything.route(kind, name)) is not None and not route.signs_in:
                return route.upstream, key_of(kind, route.original)
        server, _, original = name.partition("__")
        if original and server in upstreams:
            return server, key_of(Kind.TOOL, original)
        raise UpstreamUnavailable(
            f"There is no server, tool or request {name}; there are: {', '.join(upstreams) or 'none'}"
        )

    def _names_beside(self, server: str) -> Iterator[str]:
        """Names of other servers' tools: the visible ones, and their own where these are no plain words."""
        parts = self._hub.live.everything.parts
        own = {each.original for part in parts if part.name == server for each in part.askable(Kind.TOOL)}
        for part in parts:
            for each in part.shown[Kind.TOOL] if part.name != server else ():
                yield each.visible
                if len(each.original) >= MIN_NAME and "_" in each.original and each.original not in own:
                    yield each.original

    # --- who asks

    async def demand_person(self, command: str, about: str) -> None:
        """Raise OnlyAPerson, if it is no person who runs `command` and says yes to what it is `about`."""
        await self._look_around()
        await self._demand_person(about, partial(self._hub.audit.note, "refuse", name=about, m=command), command)

    async def _demand_person(self, what: str, note: Callable[..., None], command: str = "hubd approve") -> None:
        """Raise OnlyAPerson, if a program of a host or a server asks for a yes to `what`, or one of which nothing is
        known. `command`: what it ran for that."""
        if why := await self._why_no_person():
            log.warning("refused %s %s: %s", command, what, why)
            note(why=why)
            text = f"`{command}` was run by a program of a host or a server, and only a person may do that"
            raise OnlyAPerson(f"{text}. Run it in a terminal.")

    async def _look_around(self) -> None:
        if port := self._port():
            for each in await trio.to_thread.run_sync(find_clients, port):
                self._clients.put(each, None)

    async def _why_no_person(self) -> str:
        process = find_process(asker.get())
        return await why_no_person(self._shims(), tuple(self._clients)) or (
            "" if process is None else await trio.to_thread.run_sync(why_nobody_knows, process)
        )


async def why_no_person(shims: Iterable[Process], hosts: Iterable[Process] = ()) -> str:
    """The reason why a program of a host or a server may be asking; "": it is a person. `shims` as in
    `DecisionRequests`; `hosts`: those without."""
    pid, attached = asker.get(), tuple(shims)
    if pid == A_PERSON:
        return ""
    look = partial(why_of_a_host, find_process(pid), attached, os.getpid(), hosts=hosts)
    return await trio.to_thread.run_sync(look)


SHELLS: Final = re.compile("sh|ash|bash|dash|fish|ksh|mksh|zsh|env|npm|npx|uvx|timeout|nice|setsid")
"""Programs that only start another one."""
_FIRST = (
    "systemd|init|launchd|openrc-init|runit|runsvdir|s6-svscan|dinit|tini|dumb-init|docker-init|catatonit|supervisord"
)
ADOPTERS: Final = re.compile(_FIRST)
"""Programs below which others come whose parents have ended."""
SERVICE_MANAGERS: Final = re.compile(f"{_FIRST}|sshd|tmux|screen|login")
"""Programs that start everything of a user, and so say nothing of who asked."""


def why_of_a_host(
    asker: Process | None, shims: Iterable[Process], daemon: int, proc: Path = PROC, *, hosts: Iterable[Process] = ()
) -> str:
    """The reason why `asker` may be a program of a host, or of a server, for the log: it descends from what started one
    of the attached `shims`, be it by another process of that app, or from the hub itself; or it cannot be told. "": it
    is none.

    `shims` and `hosts`, which need no shim, are those that were there when they attached: a number of one that has
    ended may be anybody's."""
    if asker is None:
        return "it cannot be told which process asks"
    if find_process(asker.pid, proc) != asker:
        return f"process {asker.pid}, which asked, has ended"
    found = [(_starter(shim, proc), shim.pid) for shim in shims]
    found += [(each.pid, each.pid) for each in hosts if _is_host(each, proc)]
    starters = {_first_of(pid, proc): by for pid, by in found if pid is not None}
    for pid in (asker.pid, *ancestors(asker.pid, proc)):
        if pid in starters:
            return f"process {asker.pid} is below process {pid}, which attached a host by process {starters[pid]}"
        if pid == daemon and pid != 1:
            return f"process {asker.pid} is below the hub"
    return ""


def why_nobody_knows(asker: Process, proc: Path = PROC) -> str:
    """The reason why it cannot be told who started `asker`: it has no terminal of its own, and whoever did has ended.
    "": it can."""
    above = (asker.pid, *ancestors(asker.pid, proc))
    own, *others = (find_stat(pid, proc) for pid in above)
    starter = next((each for each in others if each is not None and not SHELLS.fullmatch(each.name)), None)
    if own is None or starter is None or not (starter.pid == 1 or ADOPTERS.fullmatch(starter.name)):
        return ""
    is_at_terminal = own.terminal and own.session in above
    return "" if is_at_terminal else f"process {asker.pid} has no terminal, and what started it has ended"


def _is_host(process: Process, proc: Path) -> bool:
    """True if a process still is that one, and one that hosts are."""
    found = find_stat(process.pid, proc)
    return found is not None and found.began == process.began and not SERVICE_MANAGERS.fullmatch(found.name)


def _first_of(pid: int, proc: Path) -> int:
    """The first process of the program that a process belongs to: apps start hosts by one of theirs, and terminals by
    another."""
    program = find_program(pid, proc)
    for above in ancestors(pid, proc):
        if above == 1 or find_program(above, proc) != program:
            break
        pid = above
    return pid


def _starter(shim: Process, proc: Path) -> int | None:
    """The program that attached a host by `shim`: its parent, or the next above that is no shell."""
    if find_process(shim.pid, proc) != shim:
        return None
    for pid in ancestors(shim.pid, proc):
        if (found := find_stat(pid, proc)) is None or pid == 1 or SERVICE_MANAGERS.fullmatch(found.name):
            return None
        if not SHELLS.fullmatch(found.name):
            return pid
    return None
