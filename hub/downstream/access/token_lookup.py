"""Tokens of hosts as requests are judged by them: those of the configuration, and those of `tokens.json`.

A token is looked up by its hash, so that nothing is compared that others know in part. The file is read again when it
has changed: one `stat` for each request that shows what could be such a token.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time
from math import inf
from pathlib import Path

import trio
from msgspec import Struct

from config.loading.checks.http_access import day
from config.secrets.private_state_files import StateUnreadable
from config.security_settings import AccessToken
from hub.downstream.access.token_files import PREFIX, TOKENS, KeptToken, hash_of
from hub.link.call_interface import OWNER, Identity
from hub.net.access_lifetime import Lease

log = logging.getLogger("hubd")
Signature = tuple[int, int, int] | None


class Named(Struct, frozen=True):
    """A token that counts."""

    identity: Identity
    until: float
    """Wall time from which it does not count any more."""
    lease: Lease


class NamedTokens:
    """The tokens of hosts. `path` None: no file is read. `wall`: the time of day in seconds."""

    def __init__(self, path: Path | None, wall: Callable[[], float]) -> None:
        self._path = path
        self._wall = wall
        self._configured: tuple[AccessToken, ...] = ()
        self._known: dict[str, Named] = {}
        self._seen: Signature = None
        self.problem = ""
        """The reason why no token of the file counts; "" if they do."""

    @property
    def profiles(self) -> frozenset[str]:
        """The profiles that single tokens open."""
        return frozenset(named.identity.profile for named in self._known.values() if named.identity.profile)

    @property
    def labels(self) -> frozenset[str]:
        """The labels of hosts that tokens are for."""
        return frozenset(named.identity.host for named in self._known.values())

    def configure(self, tokens: Sequence[AccessToken]) -> None:
        """Let these configured tokens count, beside those of the file."""
        self._configured = tuple(tokens)
        self.read()

    def read(self) -> None:
        """Read the file again. Whoever is let in by a token that is gone is so no more, streams included."""
        self._seen = self._signature()
        known = dict(self._entries())
        for hash, named in self._known.items():
            if hash not in known:
                named.lease.end()
        self._known = known

    def find(self, token: str) -> Named | None:
        """Who shows this token; None: nobody that is known."""
        if token.startswith(PREFIX):  # as all do that the file has
            if self._signature() != self._seen:
                self.read()
        elif not self._configured:
            return None
        if (named := self._known.get(hash_of(token))) is None or named.until == inf:
            return named
        left_s = named.until - self._wall()
        named.lease.limit(trio.current_time() + left_s)
        return named if left_s > 0 else None

    def end_streams(self) -> None:
        """End the streams of tokens that have ended by the time of day, which may have been behind when they began."""
        for named in self._known.values():
            if named.until <= self._wall():
                named.lease.shake()

    def _signature(self) -> Signature:
        if self._path is None:
            return None
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_mode

    def _entries(self) -> Iterator[tuple[str, Named]]:
        for name, kept in self._read_file().items():
            identity = Identity(kept.principal or OWNER, kept.host or name, kept.profile)
            yield kept.hash, self._replace(kept.hash, identity, inf if kept.expires is None else kept.expires)
            if kept.former is not None:
                until = min(kept.former.until, inf if kept.expires is None else kept.expires)
                yield kept.former.hash, self._replace(kept.former.hash, identity, until)
        for token in self._configured:
            if token.token is None:
                continue
            hash, ends = hash_of(token.token.reveal()), day(token.expires)
            until = inf if ends is None else datetime.combine(ends, time(), UTC).timestamp()
            identity = Identity(token.principal or OWNER, token.host or token.name, token.profile)
            yield hash, self._replace(hash, identity, until)

    def _read_file(self) -> dict[str, KeptToken]:
        if self._path is None:
            return {}
        try:
            found, problem = TOKENS.read(self._path), ""
        except StateUnreadable as error:
            found, problem = {}, f"no token of a host counts but the configured ones: {error}"
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
        return found

    def _replace(self, hash: str, identity: Identity, until: float) -> Named:
        """The token as it counts now; what hangs on it goes on, unless it means somebody else."""
        before = self._known.get(hash)
        if before is not None and before.identity == identity and not before.lease.is_over and before.until == until:
            return before
        if before is not None:
            before.lease.end()
        return Named(identity, until, Lease())
