"""What hubs on one store tell each other, and how each knows that it still hears it.

A message is sealed, so that nobody else can speak. Each hub says every second that it is there and must hear itself:
what it says reaches others, and what they say reaches it, as long as that works. Pure: time is an argument.
"""

import secrets
from typing import Final

import msgspec
from msgspec import Struct

from cache.redis.sealed_values import ValueSealer

BEAT_S: Final = 1.0
"""How often a hub says that it is there."""
DEAF_S: Final = 3.0
"""A hub that did not hear itself for so long hears nobody."""
ABSENT_S: Final = 5.0
"""A hub that was not heard for so long is gone."""


class Message(Struct, frozen=True, array_like=True):
    """What one hub tells the others."""

    hub: str
    number: int
    source: str | None = None
    """What became stale; None: nothing, the hub only is there."""
    uris: tuple[str, ...] | None = None
    """Which resources of it; None: all."""


class Invalidation(Struct, frozen=True):
    """What became stale, as another hub says."""

    source: str
    uris: tuple[str, ...] | None
    """None: all resources of the source."""


class Bus:
    """One hub's part in it, link after link."""

    def __init__(self, sealer: ValueSealer) -> None:
        self.channel = ""
        """Where it hears others, and says that it is there."""
        self.foreign = 0
        """Messages that no hub of this key has written."""
        self._me = secrets.token_hex(8)
        self._sealer = sealer
        self._said = 0
        self._heard = 0
        """The highest number of this hub's own messages that came back; only later ones prove that the link works."""
        self._heard_at = 0.0
        self._begun = 0
        self._hubs: dict[str, float] = {}

    def begin(self, channel: str, now: float) -> None:
        """Another link: nothing is proven."""
        self.channel = channel
        self._heard = self._begun = self._said
        self._heard_at = now

    @property
    def is_proven(self) -> bool:
        """Whether this hub has heard itself over this link."""
        return self._heard > self._begun

    def is_deaf(self, now: float) -> bool:
        """Whether it has not heard itself for too long."""
        return now - self._heard_at > DEAF_S

    def hubs(self, now: float) -> int:
        """How many were heard lately, this one included."""
        return sum(now - heard_at < ABSENT_S for heard_at in self._hubs.values())

    def heartbeat(self) -> bytes:
        """That it is there, sealed."""
        return self._sealer.seal(self.channel, self.message())

    def message(self, source: str | None = None, uris: tuple[str, ...] | None = None) -> bytes:
        """A message, to be sealed for whoever is to hear it."""
        self._said += 1
        return msgspec.msgpack.encode(Message(self._me, self._said, source, uris))

    def receive(self, sealed: bytes, now: float) -> Invalidation | None:
        """What another hub says is stale; None: nothing."""
        body = self._sealer.open(self.channel, sealed)
        if body is None:
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
            return Invalidation(message.source, message.uris) if message.source is not None else None
        if message.number > self._heard:
            self._heard, self._heard_at = message.number, now
        return None
