"""Limits beyond which something is wrong with a server; `hubd top` and the dashboard colour by them. Pure."""

from typing import Final

START_FAILURES: Final = 0.05
"""The part of its sessions that could not be opened."""
TOOL_ERRORS: Final = 0.10
"""The part of its calls that failed; those that hosts cancelled count as nothing."""
SESSION_S: Final = 5.0
"""The length of a session that half of them do not reach."""
P95_REMOTE_S: Final = 2.0
P95_LOCAL_S: Final = 0.1
"""The durations within which 95 of 100 calls stay: of a server by its URL, and of a process of this machine."""


def slow_from_s(*, is_local: bool) -> float:
    """The duration of calls beyond which a server counts as slow."""
    return P95_LOCAL_S if is_local else P95_REMOTE_S
