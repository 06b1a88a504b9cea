"""The params of requests as the era of the upstream wants them: what a request of a host carries, or one of the hub's
own, beside what it asks. Pure.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from hub.link.call_interface import Caller, Exchange, Operation
from hub.wire.capabilities import PASSIVE, capabilities_for_upstream, detach_all
from hub.wire.jsonrpc import peek_object, raw
from hub.wire.mcp import PROGRESS_TOKEN, Era
from hub.wire.modern_metadata import stamp
from upstreams.session_contract import OWN_CAPABILITIES, SessionTerms

_DECLARED: Final = {"extensions": PASSIVE}
"""Declared in the hub's own requests to modern upstreams."""


class DeclaredCapabilities:
    """Capabilities that requests to a modern upstream declare on behalf of hosts.

    Hosts seldom differ from the one before, so the latest are remembered.
    """

    __slots__ = ("_known", "_terms", "_told")

    def __init__(self, terms: SessionTerms) -> None:
        self._terms = terms
        self._known: dict[str, Raw] | None = None
        self._told: dict[str, Raw] = {}

    def of(self, caller: Caller) -> dict[str, Raw]:
        """The capabilities that a request on behalf of `caller` declares. Not to be changed."""
        if caller.capabilities != self._known:
            self._known = known = detach_all(caller.capabilities)
            terms = self._terms
            if not terms.tells_roots:
                known = {name: value for name, value in known.items() if name != "roots"}
            features, absorbs = terms.client_features, terms.absorbs_tasks
            told = capabilities_for_upstream(known, client_features=features, absorbs_tasks=absorbs)
            self._told = _with_extensions(told, terms.extensions) if terms.extensions else told
        return self._told


def stamp_call(
    era: Era, version: str, operation: Operation, exchange: Exchange, token: int, offer: DeclaredCapabilities
) -> dict[str, Raw]:
    """The params of `operation` for an upstream of `era`: foreign `_meta` passes, this hop's own is added.

    `token` is a progress token, unique in the session; it is only sent if the host asked for progress.
    """
    wanted = token if exchange.wants_progress else None
    if era is Era.MODERN:
        host = exchange.caller
        told, level = offer.of(host), host.log_level
        meta = stamp(operation.meta, version=version, capabilities=told, log_level=level, progress_token=wanted)
    elif wanted is not None:
        meta = raw({**operation.meta, PROGRESS_TOKEN: wanted})
    elif operation.meta:
        meta = raw(operation.meta)
    else:
        return operation.params
    return {**operation.params, "_meta": meta}


def stamp_own(
    era: Era, version: str, params: dict[str, Raw], extensions: Mapping[str, Raw] = OWN_CAPABILITIES
) -> dict[str, Raw]:
    """The params of a request of the hub's own. `extensions`: of the session's terms."""
    if era is Era.LEGACY:
        return params
    declared = _with_extensions(_DECLARED, extensions) if extensions else _DECLARED
    return {**params, "_meta": stamp({}, version=version, capabilities=declared)}


def _with_extensions(capabilities: Mapping[str, Raw], extensions: Mapping[str, Raw]) -> dict[str, Raw]:
    return {**capabilities, "extensions": raw({**peek_object(capabilities.get("extensions")), **extensions})}
