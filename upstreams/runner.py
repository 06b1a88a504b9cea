"""Upstream runner: keeps one upstream running by attempts, sessions and pauses.

    run:   attempt -> (session: opened -> upkeep until it ends) -> pause, or wait until wanted -> attempt ...
           and, if nobody has needed it for `idle_stop_s`, from any of these: stop -> wait until wanted -> attempt ...

While the main session is open, `inventory.refresh` reads the lists over it. Sessions of single hosts are opened by
`sessions.session_opener` when they are needed; a restart closes them, too.
"""

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import trio

from hub.link import hub_errors
from hub.link.log_context import SUBJECT, UpstreamSubject
from hub.wire.hub_chains import EXPERIMENTAL, HubChain, join_chains, read_chain
from hub.wire.mcp import Kind
from upstreams.cold_start.start_gate import StartGate
from upstreams.inventory.read_lists import Listing
from upstreams.lifecycle import Event, State
from upstreams.upstream import ManagedUpstream

log = logging.getLogger(__name__)

UNKNOWN_RETRY_S: Final = 300.0
_FOR_GOOD: Final = (hub_errors.UpstreamVersionError, hub_errors.UpstreamLoop, hub_errors.UpstreamUnauthorized)


class UpstreamRunner:
    """Runs one upstream. `on_settled` is called whenever it has listed what it offers, or failed."""

    def __init__(self, upstream: ManagedUpstream, gate: StartGate, on_settled: Callable[[], None]) -> None:
        self.upstream = upstream
        self._gate = gate
        self._on_settled = on_settled
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Keep the upstream running. Cancellation: its sessions are closed in order."""
        upstream = self.upstream
        SUBJECT.set(UpstreamSubject(upstream.name))
        while True:
            try:
                with trio.CancelScope() as self._scope:
                    async with trio.open_nursery() as nursery:
                        for opener in (upstream.opener, upstream.legacy_sessions.opener):
                            await nursery.start(opener.run)
                        nursery.start_soon(upstream.host_subscriptions.run)
                        await self._keep_running()
            except Exception:
                upstream.restarted()  # no session stays open to calls after a fault of the hub
                raise
            upstream.restarted()

    def restart(self) -> None:
        """Start over at once, whatever the upstream is doing."""
        self.upstream.main_lost()
        self._scope.cancel()

    async def _keep_running(self) -> None:
        upstream = self.upstream
        if upstream.is_dormant:
            log.info("%s is lazy, and what it offers is known: the first call starts it", upstream.name)
            self._on_settled()
            await upstream.availability.until_wanted()
        while True:
            upstream.availability.move(Event.START)
            error = await self._run_main()
            if upstream.state is State.IDLE:
                await upstream.availability.until_wanted()
                continue
            pause_s = upstream.fail(error)
            self._report(pause_s)
            self._on_settled()
            if pause_s is None:
                await self._wait_until_wanted(error)
            elif await self._is_unused_during(pause_s):
                upstream.rest()
                await upstream.availability.until_wanted()

    async def _wait_until_wanted(self, error: hub_errors.HubError | None) -> None:
        """Wait until a host needs the upstream. While nobody knows what it offers, no call can: try it now and then."""
        for_good = isinstance(error, _FOR_GOOD)
        with trio.move_on_after(inf if for_good or self.upstream.offered.known else UNKNOWN_RETRY_S):
            await self.upstream.availability.until_wanted()

    async def _is_unused_during(self, pause_s: float) -> bool:
        """Wait before the next attempt; whether it can be spared, since no host has needed the upstream for long."""
        with trio.move_on_after(pause_s) as pause:
            await wait_until_unused(self.upstream)
        return not pause.cancelled_caught

    def _report(self, pause_s: float | None) -> None:
        upstream = self.upstream
        then = "retried on the next call" if pause_s is None else f"next attempt in {pause_s:.1f} s"
        why = (upstream.last_error or "").partition("\n")[0]
        log.warning("%s %s: %s (%s)", upstream.name, upstream.state.value, why, then)

    # --- the main session ---------------------------------------------------------------------------------------------

    async def _run_main(self) -> hub_errors.HubError | None:
        """Open a main session and keep it until it ends; why it ended, None: it was closed."""
        self._main = self.upstream.opener.make_main()
        try:
            await self.upstream.values.read_anew()
        except hub_errors.UpstreamUnresolved as error:
            self._main.start.end()
            return hub_errors.without_frames(error)
        return await self._main.run(self._gate, self._opened, self.upstream.main_lost)

    def _opened(self, nursery: trio.Nursery) -> None:
        if self._is_loop(read_chain(self._main.session.facts.capabilities.get(EXPERIMENTAL))):
            return
        self.upstream.main_opened(self._main)
        nursery.start_soon(self.upstream.lists.run, self._main.session, self._show)
        nursery.start_soon(self._stop_when_unused)
        nursery.start_soon(self._main.keep_subscribed, self.upstream.events)

    def _is_loop(self, behind: HubChain) -> bool:
        """True if the upstream leads back to this hub; then the session ends for that reason."""
        if behind.is_loop:
            name = self.upstream.name
            text = f"{name} leads back to this hub: remove one of the hubs on that way from the other's configuration"
            self._main.fail(hub_errors.UpstreamLoop(text, upstream=name))
        return behind.is_loop

    async def _stop_when_unused(self) -> None:
        await wait_until_unused(self.upstream)
        self.upstream.rest()
        self._main.rest()

    def _show(self, found: Mapping[Kind, Listing], problems: list[str]) -> bool:
        upstream = self.upstream
        if self._is_loop(join_chains(listing.behind for listing in found.values())):
            return False
        if upstream.config.checked_schemas:
            from upstreams.inventory.compiled_schemas import without_fetching  # not above: few want it

            found, reasons = without_fetching(found, upstream.config.checked_schemas)
            problems = [*problems, *reasons]
        mask = upstream.availability.history.mask
        changed = upstream.offered.replace_lists(self._main.session.facts, found, map(mask, problems))
        upstream.listed_some()
        self._on_settled()
        return changed


async def wait_until_unused(upstream: ManagedUpstream) -> None:
    """Wait until no host has needed an upstream for its `idle_stop_s`, and what it offers is known; for ever, if it
    has no such setting."""
    while True:
        idle_s, now = upstream.config.idle_stop_s, trio.current_time()
        due = upstream.needed_until + idle_s if idle_s and upstream.offered.known else inf
        if due <= now:
            return
        with trio.move_on_at(due):
            await upstream.adjusted.take()
