"""Memory budget: how many bytes all peers together may make the hub hold, with an account for each connection.

    Budget          `limit` bytes
      principal     at most three quarters: one user of hosts, or one upstream
        Account     at most a quarter: one connection

Counted are: bodies and lines that are still arriving, large requests until they are answered, bytes written that the
peer has not read, streams kept for hosts that may come back, and parked calls. The first `FREE_BYTES` of each are free,
so that a message of the usual size costs nothing here, not even a call.

When the budget is used up, the peer that has kept the hub waiting longest is evicted: a body that arrives too slowly, a
reader that does not read. Only peers that are late by `PATIENCE_S` are evicted; if there is none, the newcomer is
refused. Pure: time is an argument.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from msgspec import Struct, field

NO_ROOM: Final = "The hub holds as much as it may, or for this host (global_buffer_bytes); try again in a moment"
FREE_BYTES: Final = 16 << 10
"""Bytes of each message, body, queue or buffer that are not counted."""
DEFAULT_BYTES: Final = 256 << 20
NO_LIMIT: Final = 1 << 62
PATIENCE_S: Final = 2.0
PACE_BYTES_PER_S: Final = 1 << 20
"""Rate at which a peer is never late."""


class Budget:
    """The bytes held for all peers together."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self.highest = 0
        """The highest `used` so far."""
        self.refused = 0
        """Number of times that there was no room."""
        self.evicted = 0
        """Number of evicted peers."""
        self.released = 0
        """Total of the bytes given back."""
        self._enough: float = inf
        self._on_enough: Callable[[], None] | None = None
        self._by_principal: dict[str, int] = {}
        self._holders: dict[Account, None] = {}

    def adjust(self, limit: int) -> None:
        """Allow so many bytes from now on."""
        self.limit = limit

    def account(self, principal: str = "", give_up: Callable[[], None] | None = None) -> "Account":
        """Open an account; its `principal` may become known later.

        `give_up` closes the connection when it is evicted; its bytes are given back already. None: never evicted.
        """
        return Account(self, principal, give_up)

    def has_room(self, asking: "Account", amount: int, now: float) -> bool:
        """True if `amount` fits; evicts late holders if need be."""
        while True:
            crowded = self._by_principal.get(asking.principal, 0) + amount > self.limit * 3 // 4
            if not crowded and self.used + amount <= self.limit:
                return True
            among = [each for each in self._holders if not crowded or each.principal == asking.principal]
            latest = min(among, key=lambda each: each.due, default=asking)
            if latest is asking or latest.due >= now - PATIENCE_S:
                return False
            self.evicted += 1
            give_up = latest.give_up
            latest.close()
            if give_up is not None:
                give_up()

    def when_released(self, total: int, callback: Callable[[], None]) -> None:
        """Call `callback` once so many bytes were `released`, now if they were; it replaces an earlier one."""
        self._enough, self._on_enough = total, callback
        self._tell_released()

    def _tell_released(self) -> None:
        if self.released >= self._enough and self._on_enough is not None:
            self._enough = inf
            self._on_enough()

    def add(self, account: "Account", amount: int) -> None:
        """Add `amount`, which may be negative, to `account`."""
        account.used += amount
        self.used += amount
        self.highest = max(self.highest, self.used)
        if amount < 0:
            self.released -= amount
            self._tell_released()
        if account.used:
            self._holders[account] = None
        else:
            self._holders.pop(account, None)
        mine = self._by_principal.get(account.principal, 0) + amount
        if mine:
            self._by_principal[account.principal] = mine
        else:
            self._by_principal.pop(account.principal, None)


class TransferPace(Struct, eq=False):
    """The pace of a peer in one direction, while the hub waits for it."""

    due: float = inf
    """Time by which a peer at `PACE_BYTES_PER_S` would have moved as much as this one has; inf: the hub does not
    wait."""

    def start_wait(self, now: float) -> None:
        """Note that the hub waits for the peer to send, or to read, from now on."""
        self.due = now

    def on_moved(self, amount: int, now: float) -> None:
        """Note that the peer has sent, or read, `amount` bytes."""
        self.due = min(now, self.due + amount / PACE_BYTES_PER_S)

    def end_wait(self) -> None:
        """Note that the hub no longer waits for the peer."""
        self.due = inf


class Account(Struct, eq=False):
    """The bytes held for one connection. All methods return at once."""

    _budget: Budget
    principal: str
    give_up: Callable[[], None] | None
    used: int = 0
    sends: TransferPace = field(default_factory=TransferPace)
    reads: TransferPace = field(default_factory=TransferPace)
    closed: bool = False

    @property
    def due(self) -> float:
        """The time since which the peer is late; inf: the account cannot be evicted."""
        return inf if self.give_up is None else min(self.sends.due, self.reads.due)

    def belongs_to(self, principal: str) -> None:
        """Set the principal; no effect while bytes are held for another principal."""
        if not self.used:
            self.principal = principal

    def take(self, amount: int, now: float) -> bool:
        """Hold `amount` more bytes; False: there is no room, and nothing has changed."""
        if self.closed:
            return False
        budget = self._budget
        if self.used + amount > budget.limit // 4 or not budget.has_room(self, amount, now):
            budget.refused += 1
            return False
        budget.add(self, amount)
        return True

    def give(self, amount: int) -> None:
        """Give `amount` bytes back; no effect on a closed account."""
        if not self.closed:
            self._budget.add(self, -amount)

    def close(self) -> None:
        """Give all bytes back, for good."""
        if not self.closed:
            self._budget.add(self, -self.used)
            self.closed = True
            self.give_up = None  # its owner refers to this account: a cycle
