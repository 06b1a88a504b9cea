"""`hubd serve --stdio`: a hub in the foreground, for the one host on its standard input and output."""

import os
from collections.abc import Callable

import trio

from config.diff import Difference
from config.layers import Loaded
from config.paths import state_path
from config.state import Memory
from hub.bootclock import boot_clock
from hub.downstream import serve_lines
from hub.equipment import keys_for, last_known, store_for, wall
from hub.hub import Hub
from hub.link.exchange import OWNER, Identity
from hub.link.wall import keep_going
from hub.process import Watch, sweep
from hub.reload import Reloader
from hub.seal import Sealer
from hub.signals import obey, received
from upstreams.orphans import adopt


async def serve_stdio(loaded: Loaded, read: Callable[[], Loaded]) -> None:
    """Serve until that host has gone, or a signal comes."""
    keys = keys_for(loaded.config, None)
    store = store_for(loaded, keys)
    hub = Hub(loaded.config, Memory(state_path()), Sealer(keys), last_known=last_known(), boot=boot_clock())
    stdio = trio.StapledStream(trio.lowlevel.FdStream(os.dup(1)), trio.lowlevel.FdStream(os.dup(0)))

    async def apply(changed: Loaded, found: Difference) -> None:
        await hub.prepare(changed.config)
        hub.apply(changed.config)

    reloader = Reloader(loaded, read, apply, wall=wall, pending=lambda: hub.pending)
    with received() as signals:
        await sweep()
        async with trio.open_nursery() as life:
            await life.start(adopt)
            life.start_soon(keep_going, "Noticing that the hub stands still", Watch().run)
            async with trio.open_nursery() as nursery:
                stop = nursery.cancel_scope.cancel
                life.start_soon(obey, signals, stop, stop, {})
                if store is not None:
                    hub.reads.use(store)
                    nursery.start_soon(keep_going, "Sharing with other hubs", store.run)
                await nursery.start(hub.run)
                nursery.start_soon(keep_going, "Following the configuration", reloader.run)
                await serve_lines(stdio, Identity(OWNER, "stdio"), hub.router, hub.downstreams, transport="stdio")
                stop()
            life.cancel_scope.cancel()
