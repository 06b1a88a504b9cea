"""The inbox: everything that waits for a decision of a person, shown and worded as by the command line.

Whoever decides sends along the hash of what was shown. What was decided elsewhere or has changed meanwhile is not
decided, and that is said.
"""

from collections.abc import Iterator
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import trio

from config.loading.precedence import stacks
from config.projects import Project, Trust, load_project, read_project
from config.show.effective import lines, show_upstream
from hub.control.pin_messages import PinChange, PinnedServer
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.messages import DetailBlock, InboxList, ItemDetail, Said
from hub.daemon.live.waiting_items import find_items
from hub.link.hub_errors import Executed, HubError
from hub.wire.questions.page_urls import is_openable

Lasting = Literal["once", "session", "hour", "always"]
MOVED: Final = "This was decided elsewhere, or has changed since it was shown; nothing was decided. Look at it again."
GONE: Final = "This does not wait any more: it was decided elsewhere, or has gone."


class Moved(HubError):
    """It is not as it was shown."""

    kind = "moved"
    executed = Executed.NO


class Inbox:
    """Everything that waits."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def list(self) -> InboxList:
        """All items."""
        hub = self._parts.hub
        asked = sum(row.asked for row in hub.hosts.status())
        return InboxList(tuple(find_items(hub, self._parts.reloader.reasons_left_out())), asked)

    # --- one item -----------------------------------------------------------------------------------------------------

    async def show(self, kind: str, id: str) -> ItemDetail:
        """All that a person has to see. Raises Moved: it does not wait any more; HubError: it cannot be shown."""
        item = next((each for each in self.list().items if (each.kind, each.id) == (kind, id)), None)
        if item is None:
            raise Moved(GONE)
        if kind == "approval":
            return await self._show_approval(id)
        if kind == "pins":
            [server] = await self._parts.decisions.pins(id, shows=True)
            return _show_pins(server)
        if kind == "project":
            return (await self._read_project(Path(id)))[1]
        more = {"offers": ("sign_in",), "cli": f"hubd auth {id}"} if kind == "sign-in" else {"cli": f"hubd env {id}"}
        return ItemDetail(kind=kind, id=id, state=_hash(item.text), title=item.text, **more)

    async def _show_approval(self, id: str) -> ItemDetail:
        approvals = self._parts.hub.approvals
        wish = approvals.find(id).wish
        shown = await self._parts.decisions.approval_show(id)
        _, *facts = shown.text.split("\n")  # behind the question, which the title asks as well
        return ItemDetail(
            kind="approval",
            id=id,
            state=_hash(shown.text, shown.arguments, wish.rule),
            title=f"{wish.subject.host} wants to use {wish.exposed}",
            text="\n".join(fact for fact in facts if not fact.startswith("arguments: ")),
            blocks=(DetailBlock(kind="code", text=shown.arguments),),
            offers=shown.offers,
            cli=f"hubd approve {id}",
        )

    async def _read_project(self, root: Path) -> tuple[Project, ItemDetail]:
        hub, environ = self._parts.hub, self._parts.reloader.environment

        def read() -> tuple[Project, ItemDetail]:
            sources = read_project(root, environ)
            project = load_project(root, environ, hub.config, sources=sources)
            starts = [show_upstream(name, stack, foreign=True) for name, stack in stacks(sources).items()]
            warnings = (DetailBlock(kind="warning", text=str(each)) for each in project.warnings)
            return project, ItemDetail(
                kind="project",
                id=str(root),
                state=_hash(project.digest),
                title=f"{root} names servers",
                text="Hosts that work there would use these servers, and start them.",
                blocks=(DetailBlock(kind="code", text="\n".join(lines((), starts)).strip()), *warnings),
                offers=("trust",),
                cli=f"hubd trust {root}",
            )

        return await trio.to_thread.run_sync(read)

    # --- decisions ----------------------------------------------------------------------------------------------------

    async def approve(self, id: str, state: str, lasting: Lasting = "once") -> Said:
        """Say yes to a call that waits."""
        await self._check("approval", id, state)
        found = await self._parts.decisions.approval_give(id, lasting)
        return Said(text=f"approved: {found.name} for {found.host} ({found.lasts})")

    async def deny(self, id: str, state: str) -> Said:
        """Say no to a call that waits."""
        await self._check("approval", id, state)
        found = await self._parts.decisions.approval_deny(id)
        return Said(text=f"denied: {found.name} for {found.host}")

    async def approve_pins(self, id: str, state: str, item: str = "") -> Said:
        """Say yes to what a server lists now, or to one of its definitions."""
        await self._check("pins", id, state)
        found = await self._parts.decisions.approve_pins(id, state, item)
        return Said(text=f"approved: {id}, {found} {'definition' if found == 1 else 'definitions'}")

    async def trust(self, id: str, state: str) -> Said:
        """Allow what the files of a project say now."""
        await self._check("project", id, state)
        project, detail = await self._read_project(Path(id))
        if detail.state != state:
            raise Moved(MOVED)
        await trio.to_thread.run_sync(Trust(self._parts.trust).allow, project)
        if (projects := self._parts.hub.projects) is not None:
            projects.changed.set()
        return Said(text=f"trusted: {id}, as it is now")

    async def sign_in(self, id: str, yes: bool = False) -> Said:
        """Begin a sign-in at a server; the page to be opened."""
        async with aclosing(self._parts.sign_ins.sign_in(name=id, yes=yes)) as steps:
            step = await anext(steps)
        if step.unusual or step.wants_token:
            return Said(text=step.unusual or step.wants_token, agree=bool(step.unusual))
        url = next(filter(is_openable, (step.url, step.authorization_url)), "")
        return Said(text=f"{id} asks you to sign in at {step.issuer}", url=url)

    async def _check(self, kind: str, id: str, state: str) -> None:
        """Raise Moved, if an item is not as it was shown."""
        if (await self.show(kind, id)).state != state:
            raise Moved(MOVED)


def _show_pins(server: PinnedServer) -> ItemDetail:
    warnings = [f"nothing counts as approved: {server.problem}"] if server.problem else []
    warnings += [f"hidden characters in {key}: {count}" for key, count in server.hidden.items()]
    warnings += [f"flag: {flag}" for flag in server.flags]
    blocks = [DetailBlock(kind="warning", text=text) for text in warnings]
    in_form = sum(change.only_form for change in server.changes)
    for change in server.changes:
        blocks += () if change.only_form else _show_change(change)
    if in_form:
        blocks.append(DetailBlock(kind="text", text=f"{in_form} changed in form only"))
    return ItemDetail(
        kind="pins",
        id=server.name,
        state=server.state,
        title=f"{server.name} differs from what was approved",
        blocks=tuple(blocks),
        offers=("approve",),
        cli=f"hubd approve {server.name}",
    )


def _show_change(change: PinChange) -> Iterator[DetailBlock]:
    name, texts = change.item.partition("/")[2] or change.item, [*change.hints]
    texts += [f"parameter {each}" for each in change.parameters]
    if change.change != "changed":
        texts.insert(0, f"it is {change.change}")
    for text in texts:
        yield DetailBlock(kind="warning", name=name, text=text, held=change.held)
    for words in change.words:
        yield DetailBlock(kind="change", name=name, what=words.where, old=words.old, new=words.new, held=change.held)


def _hash(*texts: str) -> str:
    return sha256("\0".join(texts).encode(errors="backslashreplace")).hexdigest()[:32]
