"""Waiting items: everything that waits for a decision of a person, for whoever shows or counts it."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from hub.app import Hub
from upstreams.lifecycle import State

KINDS: Final = ("approval", "pins", "project", "sign-in", "secret")


class InboxItem(Struct, frozen=True, kw_only=True):
    """One thing that waits for a person."""

    kind: str
    """One of `KINDS`."""
    id: str
    text: str
    server: str = ""
    host: str = ""
    age_s: float | None = None
    left_s: float | None = None
    """Seconds for which it can be decided."""


def find_items(hub: Hub, left_out: Mapping[str, str]) -> Iterator[InboxItem]:
    """All items, the calls that wait first. `left_out`: servers that lack something, with the reason. Cheap: it is
    asked for each second while somebody watches."""
    yield from _find_approvals(hub)
    upstreams = hub.supervisor.upstreams
    for name in upstreams:
        if hub.pins.awaits_approval(name):
            yield InboxItem(kind="pins", id=name, text=f"{name}: {'; '.join(hub.pins.remarks(name))}", server=name)
    for root in () if hub.projects is None else hub.projects.awaiting_trust:
        yield InboxItem(kind="project", id=str(root), text=f"{root}: you have not allowed what its files say now")
    for name, upstream in upstreams.items():
        if upstream.state is State.UNAUTHORIZED and upstream.config.signs_in_by_person:
            yield InboxItem(kind="sign-in", id=name, text=f"{name} wants you to sign in", server=name)
    for name, why in left_out.items():
        yield InboxItem(kind="secret", id=name, text=f"{name} is not started: {why}", server=name)


def _find_approvals(hub: Hub) -> Iterator[InboxItem]:
    if not hub.undecided:  # most hubs ask nobody, and have loaded nothing for it
        return
    for each in hub.approvals.list_all().requests:
        if not each.decision:
            yield InboxItem(
                kind="approval",
                id=each.id,
                text=f"{each.host}: {each.name} {each.arguments}",
                server=each.server,
                host=each.host,
                age_s=each.age_s,
                left_s=each.left_s,
            )
