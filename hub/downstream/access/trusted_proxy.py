"""Persons whom a trusted proxy names in a header field: believed only from the proxy itself.

The proxy is known by a secret that it sends, from an address that it may have; or, on this machine, by the user that it
runs as, which the kernel tells while the connection is open. From anybody else the field is no credential but an error.
"""

import hmac
from ipaddress import ip_address
from typing import Final

import trio

from config.tables.access import SECRET_HEADER, TrustedProxy
from hub.downstream.access.refusals import NOT_THE_PROXY
from hub.link.interface import Identity
from hub.net.http_message import EarlyReply, HttpRequest, Undecided
from hub.sign_in.browser_end import BrowserEnds

MAX_PERSON: Final = 256
REPEATED: Final = ", "
"""Stands between the values of a field that was sent twice."""
HOST: Final = "proxy"


class ProxiedPersons:
    """Judges what a proxy says. `ends` tells which user is at the other end of a connection."""

    def __init__(self, settings: TrustedProxy, ends: BrowserEnds) -> None:
        self.header = settings.header.lower()
        self._secret = None if settings.secret is None else settings.secret.reveal().encode()
        self._uids = frozenset(settings.peer_uid)
        self._peers = frozenset(ip_address(peer) for peer in settings.peers)
        self._ends = ends

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided | None:
        """The person that the proxy names; None: the request names nobody."""
        person = request.headers.get(self.header)
        if person is None:
            return None
        if not 1 <= len(person) <= MAX_PERSON or not person.isprintable() or REPEATED in person:
            return NOT_THE_PROXY
        shown = request.headers.pop(SECRET_HEADER.lower(), "")
        if not self._comes_from_peer(request):
            return NOT_THE_PROXY
        identity = Identity(f"proxy/{person}", HOST)
        if self._secret is not None and hmac.compare_digest(shown.encode(), self._secret):
            return identity
        return _ByUser(request, identity, self._ends, self._uids) if self._uids else NOT_THE_PROXY

    def _comes_from_peer(self, request: HttpRequest) -> bool:
        ends = request.ends()
        try:
            return ends is not None and ip_address(ends.peer[0]) in self._peers
        except ValueError:
            return False


class _ByUser:
    """The decision about a proxy that shows no secret: it has to be one of these users, at this moment."""

    def __init__(self, request: HttpRequest, identity: Identity, ends: BrowserEnds, uids: frozenset[int]) -> None:
        self._request = request
        self._identity = identity
        self._ends = ends
        self._uids = uids

    async def decide(self) -> EarlyReply | None:
        ends = self._request.ends()
        if ends is None or not ip_address(ends.peer[0]).is_loopback:
            return NOT_THE_PROXY
        if await trio.to_thread.run_sync(self._ends.uid_of, ends) not in self._uids:
            return NOT_THE_PROXY
        self._request.identity = self._identity
        return None
