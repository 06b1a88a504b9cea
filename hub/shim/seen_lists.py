"""Lists that a host has seen, by their digests, so that after a restart of the hub it hears only of those that differ.

A hub says digests when it can show lists, and again after each change that it has told of. What differs between the
last ones of the hub before and those of this hub is announced; while this hub has yet to say them, announcements wait.
A hub that does not promise digests has all lists announced.
"""


class SeenLists:
    """The digests of one conversation, over any number of hubs."""

    __slots__ = ("_before", "_held", "_is_unknown", "_now", "_promised")

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        """Digests of the lists that the host has seen or was told of, at the hub before; empty: unknown."""
        self._now: dict[str, object] = {}
        """Digests at this hub; empty: not said yet."""
        self._promised = False
        """This hub says digests."""
        self._is_unknown = False
        """The host was told that lists changed by a hub that does not say digests."""
        self._held: list[tuple[str, bytes]] = []
        """Announcements that wait for them, and the flag of each."""

    def changed(self, flag: str, announcement: bytes) -> bytes:
        """The list of `flag` may have changed: `announcement` if the host is to be told now, else b""."""
        if self._promised and self._before and not self._now:
            self._held.append((flag, announcement))
            return b""
        self._is_unknown |= not self._promised
        return announcement if self._differs(flag) else b""

    def told(self, digests: dict[str, object]) -> bytes:
        """The hub promises digests, by an empty `digests`, or says them; the announcements that are due now."""
        self._promised = True
        if not digests:
            return b""
        self._now = digests
        held, self._held = self._held, []
        return b"".join(announcement for flag, announcement in held if self._differs(flag))

    def _differs(self, flag: str) -> bool:
        before = self._before.get(flag)
        return not self._promised or before is None or before != self._now.get(flag)

    def hub_lost(self, *, announced: bool) -> None:
        """The hub is lost. `announced`: all that was to be announced was, or is held back here."""
        if self._is_unknown:
            self._before = {}  # nobody knows what the host has seen there
        elif self._now and announced:
            self._before = self._now
        self._now, self._held, self._promised, self._is_unknown = {}, [], False, False
