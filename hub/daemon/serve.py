"""`hubd serve`: prepare the process, take lock and sockets, run the daemon, and say by the exit code how it ended.

0 stopped, 69 cannot listen, 70 a fault of its own, 75 already running, 78 bad configuration (sysexits). With `--stdio`
there are no sockets: it is a hub in the foreground, for the one host on its standard input and output.
"""

import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

import trio
from msgspec import structs

from config import atomic_writes, hub_paths
from config.base_directories import state_dir
from config.diagnostics import ConfigError
from config.diff import Difference
from config.environment.hubd_env import CurrentEnvironment, for_this_process
from config.loading.assemble import Loaded
from config.profile_settings import profile_problem
from config.projects import Trust
from config.remembered_facts import Memory
from hub.app import WALL, Hub
from hub.catalog.endpoint_views import EVERYTHING, profile_view
from hub.daemon import systemd
from hub.daemon.assemble_sign_ins import SignInParts
from hub.daemon.banner import ADVICE, ROOT, is_root
from hub.daemon.bind_http import Bound, CannotListen, bind, spell
from hub.daemon.bind_unix import AlreadyRunning, take_lock, unix_listener
from hub.daemon.daemon import Daemon, obey, receive
from hub.daemon.http_listener import HttpListener
from hub.daemon.logs.setup import HubLog
from hub.daemon.loop_stalls import LoopWatchdog
from hub.daemon.make_keys_store_sessions_audit import audit_for, keys_for, sessions_for, store_for
from hub.daemon.reload import Reloader
from hub.daemon.served_configuration import FixedReferences, ServeOptions, check, configuration
from hub.downstream.lines.connection import LineHost
from hub.link.call_interface import OWNER, Identity
from hub.link.fault_isolation import keep_going
from hub.link.sealing import Sealer
from hub.linux import stray_processes
from hub.linux.boot_clock import boot_clock
from hub.linux.child_marks import MARKER, MAX_DEPTH, THIS_HUB, depth
from hub.linux.freeze_proof_clock import AwakeClock
from hub.linux.harden_hub import harden, raise_fd_limit
from hub.linux.stray_processes import adopt, kill_adopted, kill_marked
from hub.projects.find_project_of_host import TrustedProjects
from hub.wire.printable import printable
from upstreams.inventory.last_known_lists import LastKnown
from upstreams.redact import CommonSecrets, Mask
from upstreams.transports.stdio.sandbox.enclose import Sandboxes

log = logging.getLogger("hubd")


def run_serve(options: ServeOptions) -> int:
    """Run the hub until it is told to stop; the exit code."""
    code = _run(options)
    if options.detached and code != os.EX_OK:
        with suppress(OSError):
            os.write(0, str(code).encode())
    return code


def _run(options: ServeOptions) -> int:
    secrets = CommonSecrets()
    mask = Mask(common=secrets)
    hub_log = HubLog(WALL, mask)
    hub_log.install()
    harden()
    raise_fd_limit()
    if depth(os.environ.get(MARKER, "")) > MAX_DEPTH:
        text = "too many hubs have started each other: does the configuration of one start a hub?"
        return _fail(os.EX_CONFIG, ConfigError(text))
    started_with = dict(os.environ)
    try:
        fixed = FixedReferences()
        loaded = configuration(options, started_with, fixed)
        hub_log.adjust(loaded.config.log)
        os.environ.update(for_this_process(loaded.environ))  # no thread can be reading it yet
        if is_root():
            log.warning("%s; %s", ROOT, ADVICE)
        for remark in loaded.remarks:
            log.warning("%s", remark)
        if not loaded.sources:
            log.info("no configuration found: serving the demo until %s exists", loaded.files[0])
        serve = partial(serve_daemon, shown=not options.detached)
        if options.stdio:
            name = options.profile
            if name is not None and (problem := profile_problem(name, loaded.config.profiles)):
                raise ConfigError(f"--profile: {problem}")
            serve = partial(serve_stdio, profile=name)
        configure = partial(configuration, options, started_with, fixed)
        trio.run(partial(serve, secrets=secrets, hub_log=hub_log), loaded, configure, clock=AwakeClock())
    except ConfigError as error:
        return _fail(os.EX_CONFIG, error, _remedy(options) if error.diagnostics else "")
    except AlreadyRunning as error:
        return _fail(os.EX_TEMPFAIL, error)
    except CannotListen as error:
        return _fail(os.EX_UNAVAILABLE, error)
    except Exception:  # nothing inside could deal with it: everything was stopped in order
        log.exception("the hub stopped because of a bug")
        return os.EX_SOFTWARE
    finally:
        kill_marked(THIS_HUB)
        kill_adopted()
    return os.EX_OK


async def serve_daemon(
    loaded: Loaded, read: Callable[[], Loaded], *, secrets: CommonSecrets, shown: bool, hub_log: HubLog
) -> None:
    """Listen on the unix sockets and on `config.listen` until a signal comes, then drain and stop.

    `shown`: say on standard output where, with entries to paste into a host. `hub_log`: its own log.
    `secrets`: masked in its log; the hub keeps them up to date. Raises AlreadyRunning: another daemon of this user
    holds the lock; CannotListen: the TCP address is taken or not ours; ConfigError: a socket was handed over by the
    service manager that does not fit."""
    config = loaded.config
    handed = systemd.Handover(systemd.listeners())
    with take_lock(hub_paths.lock_path()), receive(signal.SIGHUP, signal.SIGUSR1) as signals:
        socket_path, control_path = hub_paths.socket_path(), hub_paths.control_path()
        tcp, given, given_control = handed.tcp(), handed.unix(socket_path), handed.unix(control_path)
        handed.refuse()
        memory = Memory(hub_paths.state_path())
        if tcp is not None:
            check(structs.replace(config, listen=spell(*tcp.getsockname()[:2])))  # an open address may need a token
        bound = bind(config, memory) if tcp is None else Bound(tcp, is_given=True)
        await _kill_orphans()
        await _remove_drafts()
        async with (  # who waits for the socket of hosts may then use the other one at once: so it is there first
            unix_listener(control_path, given_control) as control,
            unix_listener(socket_path, given) as lines,
        ):
            keys = keys_for(config, hub_paths.key_path())
            store = store_for(loaded, keys)
            durable, fleet = sessions_for(config, keys, store)
            environment = CurrentEnvironment(loaded.environ)
            boot = boot_clock()
            sign_ins = SignInParts(hub_paths.state_path().parent, keys, environment, boot.now)
            hub = Hub(
                config,
                memory,
                Sealer(keys),
                last_known=LastKnown(hub_paths.catalogue_dir(), wall=WALL),
                reader=TrustedProjects(Trust(hub_paths.trust_path()), environment),
                run="" if fleet is None else durable.run_id,
                is_elsewhere=(lambda run: False) if fleet is None else fleet.membership.is_elsewhere,
                boot=boot,
                shared=store,
                credentials=sign_ins,
                environ=environment,
                used=Memory(hub_paths.usage_path()),
                secrets=secrets,
                left_out=loaded.left_out,
                origins=loaded.origins,
                grants=hub_paths.grants_path(),
                pins=hub_paths.pins_dir(),
                sandboxes=Sandboxes(lambda: daemon.configuration),
                audit=audit_for(config, keys, secrets),
            )
            listener = HttpListener(hub, bound, durable, fleet, lambda: sign_ins.fetch)
            sign_ins.serves(hub, listener)
            daemon = Daemon(hub, listener, loaded, read, store, environment, hub_log, sign_ins, shown)
            own = [path for path, it in ((socket_path, given), (control_path, given_control)) if it is None]
            with closing(hub.audit):
                await daemon.run(signals, lines, control, [hub_paths.lock_path(), *own])
    log.info("stopped")


def _remedy(options: ServeOptions) -> str:
    """The remedy for a mistake in a file."""
    edit = "hubd edit" if options.config is None else f"hubd edit --config {shlex.quote(str(options.config))}"
    return f"; the hub does not start until that is right: correct it there, or by `{edit}`"


def _fail(code: int, error: Exception, remedy: str = "") -> int:
    print(f"hubd: {printable(f'{error}{remedy}', keep=chr(10))}", file=sys.stderr)  # noqa: T201
    return code


async def serve_stdio(
    loaded: Loaded, read: Callable[[], Loaded], *, secrets: CommonSecrets, hub_log: HubLog, profile: str | None = None
) -> None:
    """Serve until the host has gone or a signal comes. `secrets` as in `hub.daemon.serve`; `profile`: the one that the
    host is shown, by the word of its user. If a reload takes that away, it is shown nothing."""
    view = EVERYTHING if profile is None else profile_view(profile)
    keys = keys_for(loaded.config, None)
    path = hub_paths.key_path()
    own_keys = path if path.exists() else None  # no file is made: a daemon may be making it
    store = store_for(loaded, keys)
    environment = CurrentEnvironment(loaded.environ)
    hub = Hub(
        loaded.config,
        Memory(hub_paths.state_path()),
        Sealer(keys),
        last_known=LastKnown(hub_paths.catalogue_dir(), wall=WALL),
        boot=boot_clock(),
        shared=store,
        environ=environment,
        secrets=secrets,
        left_out=loaded.left_out,
        origins=loaded.origins,
        pins=hub_paths.pins_dir(),
        sandboxes=Sandboxes(lambda: reloader.loaded),
        audit=audit_for(loaded.config, keys_for(loaded.config, own_keys), secrets),
    )
    stdio = trio.StapledStream(trio.lowlevel.FdStream(os.dup(1)), trio.lowlevel.FdStream(os.dup(0)))

    async def apply(changed: Loaded, found: Difference) -> None:
        await hub.prepare(changed.config, changed.origins)
        hub.apply(changed.config, changed.left_out, changed.origins)
        hub_log.adjust(changed.config.log)

    reloader = Reloader(loaded, read, apply, wall=WALL, pending=lambda: hub.pending, environment=environment)
    with receive() as signals, closing(hub.audit):
        await _kill_orphans()
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
                host = LineHost(stdio, Identity(OWNER, "stdio"), hub.router, hub.hosts, view=view, transport="stdio")
                await host.serve()
                stop()
            life.cancel_scope.cancel()


async def _kill_orphans() -> None:
    """Kill servers that were left behind when a hub of this user was killed."""
    if killed := await trio.to_thread.run_sync(stray_processes.kill_orphans):
        log.warning("ended processes of servers that a killed hub had left behind: %d", killed)


async def _remove_drafts() -> None:
    """Remove files that killed hubs had not finished. The daemon's lock must be held."""
    if removed := await trio.to_thread.run_sync(atomic_writes.remove_drafts, state_dir(), WALL()):
        log.info("removed %d unfinished files that hubs left behind when they were killed", removed)
