"""Progress: tokens, and values, which must rise from one notification to the next."""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from hub.wire.jsonrpc import peek_object
from hub.wire.mcp import PROGRESS_TOKEN

SMALL_STEP: Final = 1e-6
"""Increment of the hub's own progress: less than any real step."""


def read_number(value: Raw | None) -> float | None:
    """Parse a JSON number; None for anything else."""
    try:
        return float(bytes(value)) if value is not None else None
    except ValueError:
        return None


def slightly_above(last: float) -> float:
    """A value just above `last`, so that a peer's next value is above both; 0 if there was none."""
    return max(last + SMALL_STEP, math.nextafter(last, math.inf)) if math.isfinite(last) else 0.0


def progress_token(params: Mapping[str, Raw]) -> Raw | None:
    """The progress token of a request, if it has one."""
    meta = params.get("_meta")
    if meta is None:
        return None
    token = peek_object(meta).get(PROGRESS_TOKEN)
    return None if token is None or memoryview(token)[0] not in b'"-0123456789' else token
