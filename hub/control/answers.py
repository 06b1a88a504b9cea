"""What a hub may answer on its control socket: how much, in which time, and in which shape.

The hub may be another version than the command line, or cut off in the middle, so nothing is shown before it was looked
at here. Of each answer just what the command line reads is described; whatever else is there passes.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

ANSWER_S: Final = 30.0

Shape = type | tuple[type, ...] | list[Any] | dict[str, Any]
"""Of JSON: a type; `[shape]`, an array; `{name: shape}`, an object. A member that is missing, or null, fits too, unless
its name ends in "!"."""

NUMBER: Final = (int, float)
OBJECT: Final[Shape] = dict
_COUNTS: Final[Shape] = dict.fromkeys(("hits", "misses", "coalesced", "found", "stale", "stored", "refused"), int)
_STORE: Final[Shape] = {"since_s": NUMBER, **dict.fromkeys(("hubs", "late", "bypasses", "dropped", "altered"), int)}
_CACHE: Final[Shape] = {
    "counts": _COUNTS,
    "upstreams": [{"counts": _COUNTS, "bytes": int}],
    "invalidations": dict,
    "store": _STORE,
    **dict.fromkeys(("entries", "bytes", "max_bytes", "flights", "evicted"), int),
    **dict.fromkeys(("oldest_s", "newest_s"), NUMBER),
}
_TIMES: Final = ("since_s", "silent_s", "next_attempt_s", "last_error_ago_s")
_UPSTREAM: Final[Shape] = {
    "name": str,
    "counts": dict,
    "degraded": (str, list),
    "last_error": str,
    **dict.fromkeys(_TIMES, NUMBER),
    **dict.fromkeys(("ends_lately", "failures", "restarts", "parked", "unattributed", "sessions"), int),
}
_HOST: Final[Shape] = {"attached_s": NUMBER, "idle_s": NUMBER, "host": str, "label": str}
_REPLICA: Final[Shape] = {"peers": [{"name": str, "url": str}], "name": str, "url": str}
_STATUS: Final[Shape] = {
    "version": str,
    "uptime_s": NUMBER,
    "upstreams": [_UPSTREAM],
    "hosts": [_HOST],
    "projects": [dict],
    "listen": dict,
    "config": {"files": [str], "watched": [str], "pending": [str], "warnings": [str], "problem": str},
    "warnings": [str],
    "faults": int,
    "cache": _CACHE,
    "replica": _REPLICA,
}
_RELOAD: Final[Shape] = {"problem": str, "summary!": str, "warnings!": [str], "pending!": [str]}
_RECORDS: Final[Shape] = [{"at": NUMBER}]
MORE_LOGS: Final[Shape] = {"params!": {"lost!": int, "records!": _RECORDS}}
"""What comes unasked to who follows a journal."""


class Answer(NamedTuple):
    """What is expected of one method."""

    shape: Shape
    max_bytes: int = 1 << 20
    patience_s: float | None = ANSWER_S
    """None: as long as it takes."""


ANSWERS: Final[Mapping[str, Answer]] = {
    "status": Answer(_STATUS, 32 << 20),
    "tools": Answer([{"name": str}], 256 << 20),  # as much as a hub sends: a list of 100 000 tools is one answer
    "call": Answer(OBJECT, 256 << 20, None),  # a result may be as large, and take as long, as its server likes
    "cache": Answer(_CACHE, 32 << 20),
    "cache_clear": Answer({"cleared!": int}),
    "restart": Answer(OBJECT),
    "reload": Answer(_RELOAD, 16 << 20),
    "logs": Answer({"records!": _RECORDS}, 16 << 20),
    "stop": Answer(OBJECT),
}


def misfit(value: Any, shape: Shape, name: str) -> str:
    """The name of the first part of `value` that is not of this shape; "": it fits."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return name
        found = (misfit(each, shape[0], f"{name}[{at}]") for at, each in enumerate(value))
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            return name
        found = (_misfit_of_member(value, each, shape[each], name) for each in shape)
    else:
        return "" if isinstance(value, shape) else name
    return next(filter(None, found), "")


def _misfit_of_member(value: dict[str, Any], member: str, shape: Shape, name: str) -> str:
    plain = member.removesuffix("!")
    found = value.get(plain)
    if found is None and plain == member:
        return ""
    return misfit(found, shape, f"{name}.{plain}")
