"""Values of the references of one upstream: read before its main session opens, kept for the sessions of its hosts, and
read again when the server refuses them.

Reading takes a thread, up to a minute, and no place among those that start: whoever waits for a locked keyring delays
nobody. An upstream without references passes through here without a step.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

import trio

from config.loading.check import problems_of_upstream
from config.loading.safe_reading import Problem
from config.references import Reference, ResolvedConfig, in_headers, references_of, resolve_references
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnresolved
from hub.link.rates import TokenBucket
from upstreams.journal.redact import Mask
from upstreams.resolution.sources import ReadReferences, Unresolvable

log = logging.getLogger(__name__)

THREADS: Final = 16
"""Readings at once, of all upstreams."""
RENEWALS: Final = 5
RENEWAL_PAUSE_S: Final = 30.0
"""A server that refuses whatever it is given has its values read anew so often, then once in this time."""

_threads = trio.CapacityLimiter(THREADS)


class ReferenceValues:
    """The values of one upstream's references. `mask` learns them before they are used."""

    def __init__(self, name: str, config: UpstreamConfig, read: ReadReferences, mask: Mask) -> None:
        self.mask = mask
        self._name = name
        self._config = config
        self._read = read
        self._references = references_of(config)
        self._values: Mapping[Reference, str] | None = None if self._references else {}
        self._reading = trio.Lock()
        self._renewals = TokenBucket(RENEWALS, 1 / RENEWAL_PAUSE_S)
        self.renews_headers = in_headers(config)
        """True if a header holds a reference."""

    def __repr__(self) -> str:
        state = "not read" if self._values is None else "read"
        return f"<ReferenceValues of {self._name}: {len(self._references)} {state}>"

    @property
    def is_read(self) -> bool:
        """True if all values were read once, so that `fill` can be called."""
        return self._values is not None

    def fill(self, config: UpstreamConfig) -> UpstreamConfig:
        """`config`, which has the same references, with the values that were read last in their places."""
        assert self._values is not None
        return resolve_references(config, self._values) if self._references else config

    async def read_anew(self) -> None:
        """Read all values, in place of those of before.

        Raises:
            UpstreamUnresolved: a reference has no value now.
        Cancellation: leaves the thread alone, which ends in time.
        """
        if self._references:
            async with self._reading:
                await self._take()

    async def read_once(self) -> None:
        """Read all values, unless they were.

        Raises:
            UpstreamUnresolved: as `read_anew`.
        """
        if self._values is None:
            async with self._reading:
                if self._values is None:
                    await self._take()

    async def renew_headers(self, refused: Mapping[str, str]) -> Mapping[str, str] | None:
        """The headers to send in place of those that the server refused; None: there are none to try.

        Several calls that were refused with the same headers have the values read once.
        """
        async with self._reading:
            if refused == self._headers():
                if not self._renewals.take(trio.current_time()):
                    return None
                try:
                    await self._take()
                except UpstreamUnresolved as error:
                    log.warning("%s refuses its credentials, and there are no new ones: %s", self._name, error)
                    return None
                log.info("%s refuses its credentials; what they refer to was read again", self._name)
            return self._headers()

    def _headers(self) -> dict[str, str]:
        return {name: value.reveal() for name, value in self.fill(self._config).headers.items()}

    async def _take(self) -> None:
        read = partial(self._read, self._references)
        try:
            values = await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=_threads)
        except Unresolvable as error:
            raise UpstreamUnresolved(f"{self._name} is not started: {error}", upstream=self._name) from None
        self.mask.learn([*values.values()])
        self._refuse_unfit(resolve_references(self._config, values))
        self._values = values

    def _refuse_unfit(self, config: ResolvedConfig) -> None:
        """Raise if the server cannot be started or reached with these values. Problems show no values."""
        problems = list(problems_of_upstream(config))
        if config.cwd is not None and not config.cwd.startswith("/"):
            problems.append(Problem(("cwd",), "is no absolute path"))
        for problem in problems:
            where = f"{'.'.join(problem.keys)}: " if problem.keys else ""
            text = f"{self._name} is not started: with the values of its references, {where}{problem}"
            raise UpstreamUnresolved(text, upstream=self._name)
