"""Bus: messages between hubs on one store, and proof that they arrive.

Messages are sealed, so that only hubs of the same key can send them. Each hub publishes a heartbeat every second and
must receive it: as long as it does, its messages reach other hubs, and theirs reach it. Pure: time is an argument.
"""

import secrets
from typing import Final

import msgspec
from msgspec import Struct

from cache.redis.layout import ValueSealer

BEAT_S: Final = 1.0
"""Seconds between heartbeats."""
DEAF_S: Final = 3.0
"""A hub that did not receive its own heartbeat for so long receives nothing."""
ABSENT_S: Final = 5.0
"""A hub that sent nothing for so long is gone."""


class Message(Struct, frozen=True, array_like=True):
    """A message of one hub to the others."""

    hub: str
    number: int
    source: str | None = None
    """The source with stale resources; None: a heartbeat only."""
    uris: tuple[str, ...] | None = None
    """The stale resources of the source; None: all."""


class Bus:
    """One hub's end of the bus, over any number of connections."""

    def __init__(self, sealer: ValueSealer) -> None:
        self.channel = ""
        """The channel of messages, its own heartbeats included."""
        self.foreign = 0
        """Messages that no hub of this key wrote."""
        self._me = secrets.token_hex(8)
        self._sealer = sealer
        self._said = 0
        self._heard = 0
        """The highest number of this hub's own messages that came back; only later ones prove that it works."""
        self._heard_at = 0.0
        self._begun = 0
        self._hubs: dict[str, float] = {}

    def reset(self, channel: str, now: float) -> None:
        """Begin with new connections: nothing is proven."""
        self.channel = channel
        self._heard = self._begun = self._said
        self._heard_at = now

    @property
    def is_proven(self) -> bool:
        """True if this hub has received its own heartbeat over these connections."""
        return self._heard > self._begun

    def is_deaf(self, now: float) -> bool:
        """True if this hub has not received its own heartbeat for too long."""
        return now - self._heard_at > DEAF_S

    def hubs(self, now: float) -> int:
        """Hubs heard lately, including this one."""
        return sum(now - heard_at < ABSENT_S for heard_at in self._hubs.values())

    def heartbeat(self) -> bytes:
        return self._sealer.seal(self.channel, self.message())

    def message(self, source: str | None = None, uris: tuple[str, ...] | None = None) -> bytes:
        """A message, to be sealed for its receivers."""
        self._said += 1
        return msgspec.msgpack.encode(Message(self._me, self._said, source, uris))

    def receive(self, sealed: bytes, now: float) -> tuple[str, tuple[str, ...] | None] | None:
        """Receive a message; the source with stale resources that another hub reports, and these resources, None: all
        of it. None: it reports nothing."""
        if (body := self._sealer.open(self.channel, sealed)) is None:
            self.foreign += 1
            return None
        try:
            message = msgspec.msgpack.decode(body, type=Message)
        except msgspec.DecodeError:  # a hub of another version
            return None
        self._hubs[message.hub] = now
        if len(self._hubs) > 100:  # hubs that come and go
            self._hubs = {hub: at for hub, at in self._hubs.items() if now - at < ABSENT_S}
        if message.hub != self._me:
            return None if message.source is None else (message.source, message.uris)
        if message.number > self._heard:
            self._heard, self._heard_at = message.number, now
        return None
