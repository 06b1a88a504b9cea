"""Notification coverage of one session: since when notifications are sure to arrive. Pure: time is an argument.

Legacy upstreams notify over the session itself, or a stream beside it that may break. Modern ones tell of lists over a
stream that was asked for that (`upstreams.subscriptions.modern`).
"""

from collections.abc import Iterable
from math import inf

from hub.wire.mcp import Kind


class Coverage:
    """Coverage of one session; at first the session is heard."""

    def __init__(self) -> None:
        self.since = -inf
        """`inf`: the session is not heard."""
        self.lists_since: dict[Kind, float] = {}
        """Since when a modern upstream tells of changes, by list."""

    def __repr__(self) -> str:
        return f"<Coverage since {self.since:g}, {len(self.lists_since)} lists>"

    @property
    def is_on(self) -> bool:
        """True if the session is heard now."""
        return self.since < inf

    def turn(self, now: float, *, on: bool) -> bool:
        """Note that the session is heard from now on, or no longer; whether that is new."""
        if on == self.is_on:
            return False
        self.since = now if on else inf
        return True

    def turn_lists(self, now: float, kinds: Iterable[Kind]) -> None:
        """Note that a modern upstream tells of changes of these lists from now on, and of no others."""
        self.lists_since = dict.fromkeys(kinds, now)
