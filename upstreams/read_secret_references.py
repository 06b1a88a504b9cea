"""Values of references such as `${secret:NAME}`, from the store of `hubd secret`, `$CREDENTIALS_DIRECTORY`, and the
output of programs. Read before the main session of an upstream opens, kept for the sessions of its hosts, and read
again when the server refuses them.

A value is text of at most 64 KiB without NUL; one line end behind it does not belong to it. Programs are run without a
shell and without input, in the home directory, with the environment of the hub.

Reading takes a thread, up to a minute, and no place among those that start: whoever waits for a locked keyring delays
nobody. An upstream without references passes through here without a step.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from config.diagnostics import ConfigError, Problem
from config.loading.checks.upstream import problems_of_running
from config.safe_reading import read_plain
from config.secret_references import NUL, Reference, in_headers, references_of
from config.secrets.fill_secret_values import ResolvedConfig, resolve_references
from config.secrets.kept_secrets import MAX_VALUE_BYTES
from config.secrets.keyring import hasty_keyring
from config.secrets.run_child import ChildFailed, ChildOutput, run_child
from config.secrets.store import SecretStore, SecretUnavailable
from config.settings import OWNER, UpstreamConfig
from hub.link.hub_errors import UpstreamUnresolved
from hub.link.rate_limits import TokenBucket
from hub.wire.printable import printable
from upstreams.redact import Mask

log = logging.getLogger(__name__)

THREADS: Final = 16
"""Readings at once, of all upstreams."""
RENEWALS: Final = 5
RENEWAL_PAUSE_S: Final = 30.0
"""A server that refuses whatever it is given has its values read anew so often, then once in this time."""

_threads = trio.CapacityLimiter(THREADS)


COMMAND_S: Final = 10.0
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
STDERR_CHARS: Final = 200
"""Characters of what a failing program said last that are shown."""


class Unresolvable(Exception):
    """A reference that has no value now. The text names it, says why and what to do, and shows no value."""


ReadReferences = Callable[[Iterable[Reference], str], Mapping[Reference, str]]
"""`read_references`, or a test's own."""


def read_references(
    references: Iterable[Reference],
    principal: str = OWNER,
    *,
    environ: Mapping[str, str] = os.environ,
    reached_at: Callable[[], str] = str,
) -> dict[Reference, str]:
    """The values of references; secrets are those of a `principal`. Takes up to a minute for a keyring that has to be
    unlocked, whatever the number of references, and 10 s for a program.

    `environ`: that of programs, and where credentials are looked up. `reached_at` tells the URL of the hub at which
    people keep their own. Raises Unresolvable: one has no value now."""
    keyring = hasty_keyring()

    def open_store() -> SecretStore:
        return SecretStore.open(keyring, principal=principal, at=reached_at())

    return {reference: _value(reference, environ, open_store) for reference in references}


def read_each(
    references: Iterable[Reference], environ: Mapping[str, str], patience_s: float
) -> tuple[dict[Reference, str], dict[Reference, str]]:
    """The values of those that have one, and of the others the reason. Takes `patience_s` for a keyring that has to be
    unlocked, whatever the number of references; else as `read_references`."""
    open_store = partial(SecretStore.open, hasty_keyring(patience_s))
    values, lacking = {}, {}
    for reference in references:
        try:
            values[reference] = _value(reference, environ, open_store)
        except Unresolvable as error:
            lacking[reference] = str(error)
    return values, lacking


def _value(reference: Reference, environ: Mapping[str, str], open_store: Callable[[], SecretStore]) -> str:
    if reference.kind == "secret":
        return _secret(reference, open_store)
    data = (_credential if reference.kind == "credential" else _output_of)(reference, environ)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _without(reference, "it is no UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if NUL in text:
        raise _without(reference, "it holds a NUL character, which no program can be given")
    if not text:
        raise _without(reference, "it is empty")
    return text


def _secret(reference: Reference, open_store: Callable[[], SecretStore]) -> str:
    try:
        return open_store().get(reference.text)
    except (SecretUnavailable, ConfigError) as error:
        raise _without(reference, str(error)) from None


def _credential(reference: Reference, environ: Mapping[str, str]) -> bytes:
    if not (directory := environ.get(CREDENTIALS)):
        why = f"${CREDENTIALS} is not set: start the hub by a unit with LoadCredential={reference.text}:FILE, or set it"
        raise _without(reference, why)
    path = Path(directory, reference.text)
    try:
        data, _ = read_plain(path, MAX_VALUE_BYTES + 1)
    except OSError as error:
        raise _without(reference, f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_VALUE_BYTES:
        raise _without(reference, f"{path} is larger than {MAX_VALUE_BYTES >> 10} KB")
    return data


def _output_of(reference: Reference, environ: Mapping[str, str]) -> bytes:
    argv = reference.argv
    name = os.path.basename(argv[0])
    home = os.path.expanduser("~")
    directory = home if os.path.isdir(home) else "/"
    try:
        done = run_child(argv, within_s=COMMAND_S, limit_bytes=MAX_VALUE_BYTES, environ=environ, directory=directory)
    except ChildFailed as error:
        raise _without(reference, f"{name} {error}") from None
    if done.status:
        raise _without(reference, f"{name} {_ending(done)}")
    return done.stdout


def _ending(done: ChildOutput) -> str:
    """The end of a program that failed, and the last line that it said about it."""
    how = f"exited with status {done.status}" if done.status > 0 else f"was killed by signal {-done.status}"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return f"{how}: {printable(lines[-1])[:STDERR_CHARS]}" if lines else how


def _without(reference: Reference, why: str) -> Unresolvable:
    return Unresolvable(f"{printable(str(reference))} has no value: {why}")


class ReferenceValues:
    """The values of one upstream's references, with the secrets of a `principal`. `mask` learns them before they are
    used."""

    def __init__(
        self, name: str, config: UpstreamConfig, read: ReadReferences, mask: Mask, principal: str = OWNER
    ) -> None:
        self.mask = mask
        self._principal = principal
        self._name = name
        self._config = config
        self._read = read
        self._references = references_of(config)
        self._values: Mapping[Reference, str] | None = None if self._references else {}
        self._reading = trio.Lock()
        self._renewals = TokenBucket(RENEWALS, 1 / RENEWAL_PAUSE_S)
        self.renews_headers = in_headers(config)
        """True if a header holds a reference."""

    def of(self, principal: str) -> "ReferenceValues":
        """The values with the secrets of another principal: its own where everybody has an account there."""
        if principal == self._principal or not self.are_own:
            return self
        return ReferenceValues(self._name, self._config, self._read, self.mask, principal)

    @property
    def are_own(self) -> bool:
        """True if every principal has secrets of its own for it."""
        return self._config.is_each and any(each.kind == "secret" for each in self._references)

    @property
    def is_read(self) -> bool:
        """True if all values were read once, so that `fill` can be called."""
        return self._values is not None

    def fill(self, config: UpstreamConfig) -> UpstreamConfig:
        """`config`, which has the same references, with the values that were read last in their places."""
        assert self._values is not None
        return resolve_references(config, self._values) if self._references else config

    async def read_anew(self) -> None:
        """Read all values, in place of those of before. Raises UpstreamUnresolved: a reference has no value now.
        Cancellation: leaves the thread alone, which ends in time."""
        if self._references:
            async with self._reading:
                await self._take()

    async def read_once(self) -> None:
        """Read all values, unless they were. Raises UpstreamUnresolved: as `read_anew`."""
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
        read = partial(self._read, self._references, self._principal)
        try:
            values = await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=_threads)
        except Unresolvable as error:
            raise UpstreamUnresolved(f"{self._name} is not started: {error}", upstream=self._name) from None
        self.mask.learn([*values.values()])
        self._refuse_unfit(resolve_references(self._config, values))
        self._values = values

    def _refuse_unfit(self, config: ResolvedConfig) -> None:
        """Raise if the server cannot be started or reached with these values. Problems show no values."""
        problems = list(problems_of_running(config))
        if config.cwd is not None and not config.cwd.startswith("/"):
            problems.append(Problem(("cwd",), "is no absolute path"))
        for problem in problems:
            where = f"{'.'.join(problem.keys)}: " if problem.keys else ""
            text = f"{self._name} is not started: with the values of its references, {where}{problem}"
            raise UpstreamUnresolved(text, upstream=self._name)
