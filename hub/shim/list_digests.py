"""Lists that a host has seen, by their digests, so that after a restart of the hub it hears only of those that differ.

The hub sends digests once it knows which lists this host is to see, and after each change it has announced. After a
restart, only lists whose digest differs from the last one of the old hub are announced. Until the new digests arrive,
announcements are held back, since the hub may at first show lists other than those of the host's project. A list that
the host fetched in that time may be neither the old nor the final one, so its change is announced at once.
A hub that does not promise digests has all lists announced.
"""

from hub.shim.mini_jsonrpc import notification
from hub.wire.vocabulary import LIST_FLAGS

LIST_CHANGES = {notification(method): flag for flag, method in LIST_FLAGS.items()}
"""The lines by which a hub says, to all who had a handshake, that a list has changed, and the flag of each."""
FLAGS = {method.split("/")[1]: flag for flag, method in LIST_FLAGS.items()}
"""The flags of lists, by the beginnings of the methods that ask for them."""


class SeenLists:
    """The digests of one conversation, over any number of hubs."""

    __slots__ = ("_asked", "_before", "_held", "_is_unknown", "_now", "_promised")

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
        self._asked: set[str] = set()
        """Lists, by their flags, that this hub was asked for."""

    @property
    def waits(self) -> bool:
        """True if announcements wait: what the host has seen is known, and what this hub will show is not."""
        return self._promised and bool(self._before) and not self._now

    def asked(self, method: str | None) -> None:
        """The host asks this hub something: perhaps for a list; None: something that cannot be read."""
        if method is None:
            self._asked.update(LIST_FLAGS)
        elif method.endswith("/list") and (flag := FLAGS.get(method.partition("/")[0])):
            self._asked.add(flag)

    def hub_changed(self, line: bytes) -> bytes | None:
        """The bytes that the host gets now in place of a line of a hub whose announcements wait; None: the line
        itself."""
        flag = LIST_CHANGES.get(line)
        if flag is None:
            return None
        if flag in self._asked:
            self._held = [each for each in self._held if each != (flag, line)]
            self._before[flag] = None  # what the host has got may be neither the former list nor the one to come
            return None
        if (flag, line) not in self._held:
            self._held.append((flag, line))
        return b""

    def on_change(self, flag: str, announcement: bytes) -> bytes:
        """The list of `flag` may have changed: `announcement` if the host is to be told now, else b""."""
        if self.waits:
            self._held.append((flag, announcement))
            return b""
        self._is_unknown |= not self._promised
        return announcement if self._differs(flag) else b""

    def on_digests(self, digests: dict[str, object]) -> bytes:
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
        else:
            self._before = {flag: seen for flag, seen in self._before.items() if flag not in self._asked}
        self._now, self._held, self._promised, self._is_unknown = {}, [], False, False
        self._asked.clear()
