"""Run: how a hook is asked, within its time and bounds. A program has a process group and a clean environment of its
own; an address gets the same by POST, without redirects.
"""

import os
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Final

import trio

from config.environment.pass_variables_by_patterns import passing
from config.secrets.run_child import ChildFailed, run_child
from config.security_settings import HookConfig
from config.settings import LOOPBACK
from hub.link.fair_limits import Places, Turn
from hub.link.sync_primitives import Wakeup
from hub.rules.hooks.messages import MAX_BYTES, HookFailed, Opinion, read_answer, read_exit
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.terms_and_answers import Allowed, FetchFailed

MAX_RUNNING: Final = 8
"""Questions that one hook answers at a time."""
MAX_WAITING: Final = 64


class Hook:
    """One hook. `environ`: the variables of the hub."""

    def __init__(self, config: HookConfig, environ: Mapping[str, str]) -> None:
        self.config = config
        self._environ = environ
        self._places = Places()
        self._places.adjust(MAX_RUNNING, MAX_WAITING, 0)
        self._threads = trio.CapacityLimiter(MAX_RUNNING)
        self._fetch: Fetcher | None = None

    async def ask(self, message: bytes, event: str, program: Hashable) -> Opinion:
        """Its opinion about a call of a program. These take turns; the time for an answer begins with the turn.

        Raises:
            HookFailed: it gives none.
        Cancellation: its process group is killed.
        """
        await self._wait(program)
        try:
            with trio.move_on_after(self.config.timeout_s):
                return await (self._run(message, event) if self.config.command else self._post(message, event))
        finally:
            self._places.release()
            while (turn := self._places.next(trio.current_time())) is not None:
                turn.wake(None)
        raise HookFailed(f"it did not answer within {self.config.timeout_s:g} seconds")

    async def _wait(self, program: Hashable) -> None:
        """Wait for a place. Raises HookFailed: too many wait. Cancellation: it waits no more."""
        places = self._places
        if places.take(trio.current_time()):
            return
        wakeup: Wakeup[None] = Wakeup()
        turn, error = Turn(program, wakeup), HookFailed("too many calls wait for it")
        if (refused := places.join(turn)) is turn:
            raise error
        if refused is not None:
            refused.wake(error)
        await wakeup.wait(partial(places.withdraw, turn))

    async def _run(self, message: bytes, event: str) -> Opinion:
        stop, stopped = os.pipe()
        owner = iter(("whoever is first",))
        """The thread closes `stop`, unless it never begins."""
        work = partial(
            run_child,
            self.config.command,
            within_s=self.config.timeout_s,
            limit_bytes=MAX_BYTES,
            input=message,
            environ=dict(passing(self._environ, ()).passed),
            stop=stop,
        )

        def run() -> Opinion:
            if next(owner, None) is None:
                raise HookFailed("nobody waits for it any more")
            try:
                done = work()
            except ChildFailed as error:
                raise HookFailed(f"the program {error}") from None
            finally:
                os.close(stop)
            return read_exit(done.status, done.stdout, done.stderr, event)

        try:
            return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads)
        finally:
            os.close(stopped)  # whoever still waits for the program sees that
            if next(owner, None) is not None:
                os.close(stop)

    async def _post(self, message: bytes, event: str) -> Opinion:
        if self._fetch is None:
            self._fetch = Fetcher(self._environ, timeout_s=self.config.timeout_s, max_body_bytes=MAX_BYTES)
        try:
            answer = await self._fetch.post_bytes(
                self.config.url, message, Allowed(frozenset(LOOPBACK), loopback_http=True)
            )
        except FetchFailed as error:
            raise HookFailed(error.text) from None
        if answer.status != 200:
            raise HookFailed(f"it answered with status {answer.status}")
        if answer.body.strip():
            return read_answer(answer.body, event)
        if not answer.body and {"content-length", "transfer-encoding"}.isdisjoint(answer.headers):
            raise HookFailed("its answer has no length and no content, so it may have been cut off")
        return Opinion()
