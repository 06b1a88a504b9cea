"""Workplaces of hosts: the directory that the shim names or, without one, the first of the host's roots.

A host is asked for its roots only once the user has allowed any project at all: without projects no host is asked.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import trio
from msgspec import Struct, field

from hub.catalog.view import EVERYTHING
from hub.downstream.hosts import Host
from hub.projects.project_files import is_name
from hub.wire.jsonrpc import Result, peek_array, peek_object, peek_str
from hub.wire.mcp import LIST_ROOTS
from hub.wire.questions.question import Question

log = logging.getLogger("hubd.projects")

ROOTS_ANSWER_S: Final = 30.0
"""Seconds that a host has to name its roots."""
HUB_NAME: Final = "hubd"
"""The asker, as questions name it."""


class _Asking(Struct, eq=False):
    """A host that is being asked."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    over: trio.Event = field(default_factory=trio.Event)


class Roots:
    """Sets `Host.workplace` of hosts that are asked, and calls `place` then.

    `any_allowed`: whether the user has allowed any project.
    """

    def __init__(
        self, any_allowed: Callable[[], Awaitable[bool]], place: Callable[[list[Host]], Awaitable[None]]
    ) -> None:
        self._any_allowed = any_allowed
        self._place = place
        self._said: dict[Host, Path | None] = {}
        """The directories that their shims named; None: none, or the host was not on a shim."""
        self._asking: dict[Host, _Asking] = {}
        """Hosts that are being asked."""
        self._unasked: set[Host] = set()
        """Hosts that will be asked once any project is allowed."""

    def __repr__(self) -> str:
        return f"<Roots [{len(self._said)} hosts, {len(self._asking)} are asked, {len(self._unasked)} will be]>"

    def concerns(self, host: Host) -> bool:
        """True if a host is here that has said where it works, or is saying so."""
        return host in self._said or host in self._asking

    def note(self, host: Host, said: Path | None) -> None:
        """Note the directory that a host's shim has named; None: it named none, or the host works where it did before
        the hub restarted, until its roots say otherwise."""
        self._said[host] = said

    def left(self, host: Host) -> None:
        """A host has left: ask it nothing more."""
        self._unasked.discard(host)
        self._said.pop(host, None)
        if host in self._asking:
            self._asking.pop(host).scope.cancel()

    def ask(self, host: Host, nursery: trio.Nursery) -> None:
        """Ask a host in `nursery` where it works, unless the user has said so; an earlier question counts no more.

        One that cannot be asked works where its shim said.
        """
        has_roots = host.caller is not None and "roots" in host.caller.capabilities
        can_be_asked = host.open and host.hears and has_roots
        if not can_be_asked or host.endpoint.base != EVERYTHING or host.is_bound:
            return
        if host in self._asking:
            self._asking[host].scope.cancel()
        asking = self._asking[host] = _Asking()
        nursery.start_soon(self._ask, host, asking)

    async def answered(self, host: Host) -> None:
        """Wait until `host` is not being asked: it has answered and was given its place, or has taken too long."""
        while (asking := self._asking.get(host)) is not None:
            await asking.over.wait()

    async def ask_unasked(self, nursery: trio.Nursery) -> None:
        """Ask the hosts that were not asked, if any project is allowed by now."""
        if self._unasked and await self._any_allowed():
            unasked, self._unasked = self._unasked, set()
            for host in unasked:
                self.ask(host, nursery)

    async def _ask(self, host: Host, asking: _Asking) -> None:
        """Ask one host. Faults are logged only: a host that answers nonsense works where it did."""
        try:
            with asking.scope:
                if not await self._any_allowed():
                    self._unasked.add(host)
                    return
                with trio.move_on_after(ROOTS_ANSWER_S):
                    question = Question(LIST_ROOTS, {}, HUB_NAME, host.version)
                    reply = await host.ask(question, partial(_send_beside, host))
                    if isinstance(reply, Result):
                        roots = peek_array(peek_object(reply.value).get("roots"))
                        uris = [peek_str(peek_object(root).get("uri")) or "" for root in roots]
                        host.move(first_directory(uris) or self._said.get(host))
                await self._place([host])
        except Exception:
            log.exception("cannot tell where %r works", host)
        finally:
            if self._asking.get(host) is asking:
                del self._asking[host]
            asking.over.set()


def _send_beside(host: Host, message: bytes, *, vital: bool = False) -> bool:
    host.tell(LIST_ROOTS, message)
    return True


def first_directory(uris: Iterable[str]) -> Path | None:
    """The first of these roots that is a directory of this machine."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:  # "file://[" is no URI
            continue
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            path = Path(unquote(parts.path))
            if is_name(path):
                return path
    return None
