"""MCP Apps behind a hub: which tools a user interface may call, under which names, and which upstream it belongs to.

The specification calls a user interface a view; here a view is what an endpoint shows (`hub.catalog.view`). A user
interface calls tools by the names that its own server gave them, and hosts let it call every tool of "the server",
which here is the hub. So for hosts with user interfaces every tool is shown for the model only, and the tools that a
user interface may call are listed once more, under their bare names, for user interfaces only.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Raw

from hub.link.recent import Recent
from hub.wire.jsonrpc import peek_array, peek_object, raw

AFFINITY_S: Final = 3600.0
"""Seconds for which a principal's use of a user interface tells which one is asking."""
MAX_KNOWN: Final = 256
_MODEL, _APP = raw("model"), raw("app")


def visibility(meta: Raw | None) -> tuple[Raw, ...]:
    """The audience of a tool, by the `_meta` of its entry; model and user interfaces, unless it says otherwise."""
    found = peek_object(peek_object(meta).get("ui")).get("visibility")
    return (_MODEL, _APP) if found is None else tuple(peek_array(found))


def for_model(meta: Mapping[str, Raw]) -> dict[str, Raw]:
    """`_meta` of a tool that user interfaces are not to call; a tool that the model is not to see stays as it is."""
    ui = peek_object(meta.get("ui"))
    if "visibility" in ui and _MODEL not in peek_array(ui["visibility"]):
        return dict(meta)
    return {**meta, "ui": raw({**ui, "visibility": [_MODEL]})}


def for_views(meta: Mapping[str, Raw]) -> dict[str, Raw]:
    """`_meta` of the same tool under its bare name."""
    return {**meta, "ui": raw({**peek_object(meta.get("ui")), "visibility": [_APP]})}


def is_for_views(meta: Raw | None) -> bool:
    """True if user interfaces may call a tool with this `_meta`."""
    return _APP in visibility(meta)


def is_for_model(meta: Raw | None) -> bool:
    """True if the model may see a tool with this `_meta`."""
    return _MODEL in visibility(meta)


class Affinity:
    """User interfaces that each principal used lately: one that reads `ui://x` means its own server's."""

    def __init__(self) -> None:
        self._used: Recent[tuple[str, str], float] = Recent(MAX_KNOWN)

    def note(self, principal: str, upstream: str, now: float) -> None:
        """A user interface of `upstream` was fetched at `now`."""
        self._used.put((principal, upstream), now)

    def choose(self, principal: str, candidates: Iterable[str], now: float) -> str | None:
        """The only one of `candidates` that can be asking; None: several can, or none."""
        names = list(candidates)
        recent = [name for name in names if now - self._used.get((principal, name), float("-inf")) <= AFFINITY_S]
        found = recent or names
        return found[0] if len(found) == 1 else None
