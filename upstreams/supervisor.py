"""All upstreams of a hub by name, each kept by a task of its own (`keeper`)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import trio

from config.schema import UpstreamConfig
from upstreams.keeper import Keeper
from upstreams.last_known import LastKnown
from upstreams.lifecycle import State
from upstreams.pool import Memory, Opener
from upstreams.probe import config_key
from upstreams.session import open_session
from upstreams.upstream import Upstream

log = logging.getLogger(__name__)

STARTS_AT_ONCE: Final = 8


class Supervisor:
    """Keeps every configured upstream running.

    `settled` is set once it is known of each what it offers, be it from an earlier run, or that it failed.
    """

    def __init__(
        self,
        memory: Memory,
        on_change: Callable[[Upstream], None],
        *,
        open_session: Opener = open_session,
        last_known: LastKnown | None = None,
    ) -> None:
        self.upstreams: dict[str, Upstream] = {}
        self.settled = trio.Event()
        self._memory = memory
        self._last_known = last_known or LastKnown(None)
        self._on_change = on_change
        self._open_session = open_session
        self._slots = trio.Semaphore(STARTS_AT_ONCE)
        self._unsettled: set[str] = set()
        self._keepers: dict[str, Keeper] = {}

    def __repr__(self) -> str:
        return f"<Supervisor {list(self.upstreams.values())}>"

    async def run(
        self,
        configs: Mapping[str, UpstreamConfig],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start all upstreams that are not disabled, and keep them running until cancelled.

        `started` is called when all are known by name, before any is connected. Cancellation: stops them in order.
        """
        await self._last_known.prepare(configs)
        for name, config in configs.items():
            self.upstreams[name] = Upstream(
                name,
                config,
                self._on_change,
                self._memory,
                self._open_session,
                self._slots,
                self._last_known.find(name, config),
            )
        enabled = [upstream for upstream in self.upstreams.values() if upstream.state is not State.DISABLED]
        self._unsettled = {upstream.name for upstream in enabled if not upstream.remembered}
        self._settle(None)
        async with trio.open_nursery() as nursery:
            for upstream in enabled:
                keeper = Keeper(upstream, self._slots, partial(self._settle, upstream))
                self._keepers[upstream.name] = keeper
                nursery.start_soon(keeper.run)
            task_status.started()
            await trio.sleep_forever()

    def restart(self, name: str) -> None:
        """Start an upstream anew, at once, whatever it is doing; its era, and whether it asks, is found out again.

        Raises:
            KeyError: there is no such upstream, or it is disabled.
        """
        keeper = self._keepers[name]
        upstream = self.upstreams[name]
        self._memory.remember_era(config_key(upstream.config), None)
        upstream.pool.forget_interactive()
        upstream.elders.forget()
        keeper.restart()

    def _settle(self, upstream: Upstream | None) -> None:
        if upstream is not None:
            self._unsettled.discard(upstream.name)
        if not self._unsettled:
            self.settled.set()
