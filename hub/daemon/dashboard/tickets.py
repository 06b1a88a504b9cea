"""PageTickets sign a browser in; the page that one was redeemed for has a key from then on.

A ticket is part of an address that is opened, so other users of the machine may read it in the list of processes: it is
good once and for a minute, and only for a browser of the hub's user on this machine (`guard`). One that was only
printed is in no such list. It is good anywhere, and its key for a shorter time.

Keys are sealed, so that they outlive the hub. All of them end with their epoch: a random number in a file, since one
that counts up would be an earlier one again where the file is lost.
"""

import logging
import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Final

import msgspec
import trio
from msgspec import Struct

from config.atomic_writes import replace_private
from config.safe_reading import read_private
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import OWNER
from hub.link.sealing import InvalidSeal, Sealer

log = logging.getLogger("hubd")

TICKET_S: Final = 60.0
SESSION_S: Final = 12 * 3600.0
PRINTED_S: Final = 3600.0
"""Life of the key of a ticket that was printed."""
MAX_TICKETS: Final = 32
PURPOSE: Final = "ui"
LABEL: Final = re.compile(r"hubd-[a-z0-9]{8}\.localhost")
"""Names of the hub in browsers. A new one is an origin where nothing has been left by whoever had the port before."""
_SIGNS: Final = ascii_lowercase + digits
_EPOCH: Final = re.compile(rb"[0-9a-f]{32}")


class PageTicket(Struct, frozen=True):
    """What signs one browser in."""

    host: str
    """The name of the hub in its address."""
    is_printed: bool
    ends_at: float


class PageKey(Struct, frozen=True):
    """A page that is signed in."""

    principal: str
    epoch: str
    ends_at: float
    """Wall time."""
    is_printed: bool = False


class PageTickets:
    """All tickets, and the keys of this epoch. `path`: the file of its number; None: it ends with the hub."""

    def __init__(self, sealer: Sealer, path: Path | None, wall: Callable[[], float]) -> None:
        self._sealer = sealer
        self._path = path
        self._wall = wall
        self._tickets: BoundedDict[bytes, PageTicket] = BoundedDict(MAX_TICKETS)
        """By the hash of their texts, so that no time that a look-up takes tells anything of these."""
        self._epoch = self._read_epoch()

    def issue(self, *, is_printed: bool) -> tuple[str, PageTicket]:
        """The text of a new ticket, and the ticket."""
        text = secrets.token_urlsafe(32)
        host = f"hubd-{''.join(secrets.choice(_SIGNS) for _ in range(8))}.localhost"
        ticket = PageTicket(host, is_printed, trio.current_time() + TICKET_S)
        self._tickets.put(_hash(text), ticket)
        return text, ticket

    def find(self, text: str) -> PageTicket | None:
        """The ticket of this text; None: there is none, or none any more."""
        found = self._tickets.get(_hash(text))
        return found if found is not None and found.ends_at > trio.current_time() else None

    def redeem(self, text: str) -> tuple[str, float] | None:
        """The key of a page, and for how many seconds it is good; None: the ticket counts no more."""
        if (ticket := self.find(text)) is None:
            return None
        del self._tickets[_hash(text)]
        seconds = PRINTED_S if ticket.is_printed else SESSION_S
        key = PageKey(OWNER, self._epoch, self._wall() + seconds, ticket.is_printed)
        return self._sealer.seal(PURPOSE, msgspec.json.encode(key)), seconds

    def open(self, text: str) -> PageKey | None:
        """The page that has this key; None: it is no key, or not good any more."""
        try:
            key = msgspec.json.decode(self._sealer.open(PURPOSE, text), type=PageKey)
        except (InvalidSeal, msgspec.DecodeError):
            return None
        return key if self.is_good(key) else None

    def is_good(self, key: PageKey) -> bool:
        """True if a page with this key is still signed in."""
        return key.epoch == self._epoch and key.ends_at > self._wall()

    def end_all(self) -> None:
        """Sign all pages out, for good. Blocks. Raises OSError: it cannot be written, so they are until the hub
        ends."""
        self._tickets.clear()
        self._begin_epoch()

    def _read_epoch(self) -> str:
        try:
            if self._path is not None and _EPOCH.fullmatch(data := read_private(self._path, 64).data):
                return data.decode()
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("cannot read %s (%s): pages of the dashboard are signed out", self._path, error.strerror)
        try:
            self._begin_epoch()
        except OSError as error:
            log.warning("cannot write %s (%s): pages sign in again after the next start", self._path, error.strerror)
        return self._epoch

    def _begin_epoch(self) -> None:
        self._epoch = secrets.token_hex(16)
        if self._path is not None:
            replace_private(self._path, self._epoch.encode(), sync_name=True)


def _hash(text: str) -> bytes:
    return sha256(text.encode(errors="replace")).digest()
