"""`hubd serve --stdio`: a hub in the foreground, for the one host on its standard input and output."""

import os
from collections.abc import Callable
from functools import partial

import trio

from config.diff import Difference
from config.environment.precedence import CurrentEnvironment
from config.hub_paths import state_path
from config.loading.assemble import Loaded
from config.saved_state import Memory
from hub.app import Hub
from hub.catalog.view import EVERYTHING, profile_view
from hub.daemon.reload import Reloader
from hub.daemon.setup import keys_for, kill_orphans, last_known, store_for, wall
from hub.daemon.signals import obey, receive
from hub.daemon.watchdog import LoopWatchdog
from hub.downstream.lines.connection import serve_lines
from hub.link.fault_isolation import keep_going
from hub.link.interface import OWNER, Identity
from hub.link.sealing import Sealer
from hub.linux.machine import boot_clock
from hub.linux.orphans import adopt
from upstreams.journal.redact import CommonSecrets


async def serve_stdio(
    loaded: Loaded, read: Callable[[], Loaded], *, secrets: CommonSecrets, profile: str | None = None
) -> None:
    """Serve until the host has gone or a signal comes. `secrets` as in `hub.daemon.serve`; `profile`: the one that the
    host is shown, by the word of its user. If a reload takes that away, it is shown nothing."""
    view = EVERYTHING if profile is None else profile_view(profile)
    keys = keys_for(loaded.config, None)
    store = store_for(loaded, keys)
    environment = CurrentEnvironment(loaded.environ)
    hub = Hub(
        loaded.config,
        Memory(state_path()),
        Sealer(keys),
        last_known=last_known(),
        boot=boot_clock(),
        shared=store,
        environ=environment,
        secrets=secrets,
        left_out=loaded.left_out,
    )
    stdio = trio.StapledStream(trio.lowlevel.FdStream(os.dup(1)), trio.lowlevel.FdStream(os.dup(0)))

    async def apply(changed: Loaded, found: Difference) -> None:
        await hub.prepare(changed.config)
        hub.apply(changed.config, changed.left_out)

    reloader = Reloader(loaded, read, apply, wall=wall, pending=lambda: hub.pending, environment=environment)
    with receive() as signals:
        await kill_orphans()
        async with trio.open_nursery() as life:
            await life.start(adopt)
            life.start_soon(keep_going, "Noticing that the hub stands still", LoopWatchdog().run)
            async with trio.open_nursery() as nursery:
                stop = nursery.cancel_scope.cancel
                life.start_soon(obey, signals, stop, stop, {})
                if store is not None:
                    nursery.start_soon(keep_going, "Sharing with other hubs", partial(store.run, hub.reads))
                await nursery.start(hub.run)
                nursery.start_soon(keep_going, "Following the configuration", reloader.run)
                await serve_lines(stdio, Identity(OWNER, "stdio"), hub.router, hub.hosts, view=view, transport="stdio")
                stop()
            life.cancel_scope.cancel()
