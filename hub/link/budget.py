"""How much memory all peers together may make the hub hold: a budget with an account for each connection.

    Budget          all of it, `limit` bytes
      principal     at most three quarters of it: one account of hosts, or one upstream
        Account     at most a quarter: one connection

What is counted: bodies and lines that have begun to arrive, large requests until they are answered, what was written
and not read yet, what is kept for hosts that may come back, and what is parked. The first `FREE_BYTES` of each are
free, so that a message of the usual size costs nothing here, not even a call.

When there is no room, whoever keeps the hub waiting longest gives way: a body that arrives too slowly, a reader that
does not read. Only one that is late by `PATIENCE_S` does; if there is none, the newcomer is refused. Pure: time is an
argument.
"""

from collections.abc import Callable
from math import inf
from typing import Final

NO_ROOM: Final = "The hub holds as much as it may, or for this host (global_buffer_bytes); try again in a moment"
FREE_BYTES: Final = 16 << 10
"""Of each message, body, queue or buffer."""
DEFAULT_BYTES: Final = 256 << 20
PATIENCE_S: Final = 2.0
PACE_BYTES_PER_S: Final = 1 << 20
"""A peer that moves so much is never late."""


class Budget:
    """The bytes that are held for all peers together."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self.highest = 0
        """The most that was ever used."""
        self.refused = 0
        """How often there was no room."""
        self.evicted = 0
        """How many peers had to give way."""
        self.released = 0
        """All that was ever given back."""
        self._by_principal: dict[str, int] = {}
        self._holders: dict[Account, None] = {}

    def __repr__(self) -> str:
        return f"<Budget {self.used} of {self.limit} bytes, {len(self._holders)} holders>"

    def account(self, principal: str = "", give_up: Callable[[], None] | None = None) -> "Account":
        """A new account, whose `principal` may become known later.

        `give_up` ends the connection; what it holds is given back already. None: it never has to give way.
        """
        return Account(self, principal, give_up)

    def facts(self) -> dict[str, int]:
        """For `hubd status`."""
        names = ("used", "limit", "highest", "refused", "evicted")
        return {name: getattr(self, name) for name in names}

    def has_room(self, asking: "Account", amount: int, now: float) -> bool:
        """Whether `amount` fits, after late holders have given way if need be."""
        while True:
            crowded = self._by_principal.get(asking.principal, 0) + amount > self.limit * 3 // 4
            if not crowded and self.used + amount <= self.limit:
                return True
            among = [each for each in self._holders if not crowded or each.principal == asking.principal]
            latest = min(among, key=_due, default=asking)
            if latest is asking or latest.due >= now - PATIENCE_S:
                return False
            self.evicted += 1
            give_up = latest.give_up
            latest.close()
            if give_up is not None:
                give_up()

    def add(self, account: "Account", amount: int) -> None:
        """Count `amount`, which may be less than 0."""
        account.used += amount
        self.used += amount
        self.highest = max(self.highest, self.used)
        self.released -= min(0, amount)
        if account.used:
            self._holders[account] = None
        else:
            self._holders.pop(account, None)
        mine = self._by_principal.get(account.principal, 0) + amount
        if mine:
            self._by_principal[account.principal] = mine
        else:
            self._by_principal.pop(account.principal, None)


class TransferPace:
    """Whether a peer keeps pace in one direction, while something waits for it there."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        self.due = inf
        """When a peer that keeps pace would have moved as much as this one has; inf: nothing waits for it."""

    def begin(self, now: float) -> None:
        """The peer is to send, or to read, from now on."""
        self.due = now

    def moved(self, amount: int, now: float) -> None:
        """It has sent, or read, so much."""
        self.due = min(now, self.due + amount / PACE_BYTES_PER_S)

    def rest(self) -> None:
        """Nothing waits for it any more."""
        self.due = inf


class Account:
    """What is held for one connection. All methods return at once."""

    __slots__ = ("_budget", "closed", "give_up", "principal", "reads", "sends", "used")

    def __init__(self, budget: Budget, principal: str, give_up: Callable[[], None] | None) -> None:
        self._budget = budget
        self.principal = principal
        self.give_up = give_up
        self.used = 0
        self.sends = TransferPace()
        self.reads = TransferPace()
        self.closed = False

    def __repr__(self) -> str:
        return f"<Account of {self.principal or 'nobody'}, {self.used} bytes>"

    @property
    def due(self) -> float:
        """How long it has been late, as a time; inf: it need not give way."""
        return inf if self.give_up is None else min(self.sends.due, self.reads.due)

    def belongs_to(self, principal: str) -> None:
        """Say whose it is. Nothing, while it holds something in another's name."""
        if not self.used:
            self.principal = principal

    def take(self, amount: int, now: float) -> bool:
        """Hold `amount` bytes more; False: there is no room, and nothing has changed."""
        if self.closed:
            return False
        budget = self._budget
        if self.used + amount > budget.limit // 4 or not budget.has_room(self, amount, now):
            budget.refused += 1
            return False
        budget.add(self, amount)
        return True

    def give(self, amount: int) -> None:
        """Hold so much less. Nothing, once it is closed."""
        if not self.closed:
            self._budget.add(self, -amount)

    def close(self) -> None:
        """Give everything back, for good."""
        if not self.closed:
            self._budget.add(self, -self.used)
            self.closed = True
            self.give_up = None  # whom it would end has this account: no cycle is left


def _due(account: Account) -> float:
    return account.due
