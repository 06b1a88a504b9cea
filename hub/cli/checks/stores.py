"""Checks of the shared store, of the other hubs there, and of files that hold secrets."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from cache.redis.url import address_of, require_client
from config import base_directories
from config.diagnostics import ConfigError
from config.loading.variables import MAX_FILE_BYTES
from config.safe_reading import read_plain, read_private
from config.settings import CacheConfig, HubConfig
from hub.cli.checks.findings import Finding, readable_by_others, unreadable
from hub.cli.checks.machine_state import MachineState

TRY_S: Final = 2.0
MIN_SECRET: Final = 8
"""The least length of a secret that is searched for; shorter values occur by chance."""
SECRET: Final = ("token", "keys", "secrets.json", "installed.json", "originals.json")
OWN: Final = (*SECRET, "trust.json", "memory.json", "sessions.json")
"""Files of the state directory that hold secrets."""
WITHOUT: Final = "the hub works without it, and other hubs cannot find this one"


def store(examined: MachineState) -> Iterator[Finding]:
    """A store that cannot be used. It is tried once, as a hub does."""
    cache = examined.config.cache
    if cache.url is None:
        return

    try:
        require_client()
        address = address_of(cache)
    except ConfigError as error:
        yield Finding("store", "problem", "the store of [cache] url cannot be used", WITHOUT, str(error))
        return
    if cache.tls_ca is not None and not os.access(cache.tls_ca, os.R_OK):
        what = f"the file {cache.tls_ca} of [cache] tls_ca cannot be read"
        yield Finding("store", "problem", what, WITHOUT, "put the certificates there, or correct tls_ca")
        return
    if reason := _reason(cache):
        what = f"the store at {address} cannot be used: {reason}"
        yield Finding("store", "problem", what, WITHOUT, _fix(reason, tls=address.tls))
    elif examined.status and (seen := examined.status.cache) and (theirs := seen.store) and theirs.state != "connected":
        what = f"the running hub does not use the store at {address}: {theirs.reason or theirs.state}"
        fix = "see `hubd cache` again in half a minute; it tries by itself"
        yield Finding("store", "warning", what, WITHOUT, fix)


def _reason(cache: CacheConfig) -> str:
    """The reason why the store cannot be used; "": it can."""
    from cache.redis.connection_pair import ConnectionPair  # it comes with an extra

    async def attempt() -> str:
        reached = trio.Event()

        async def serve(link: ConnectionPair) -> None:
            reached.set()

        with trio.move_on_after(TRY_S) as scope:
            ended = await ConnectionPair(address_of(cache)).run(serve)
        if reached.is_set():
            return ""
        return f"no answer within {TRY_S:g} s" if scope.cancel_called else ended

    return trio.run(attempt)


def _fix(reason: str, *, tls: bool) -> str:
    said = reason.lower()
    if any(word in said for word in ("wrongpass", "noauth", "auth", "password")):
        return 'correct `password` (and `username`) below [cache], such as password = "${file:/run/secrets/redis}"'
    if "certificate" in said or "ssl" in said:
        return "name the file of its authority in tls_ca below [cache], or correct its certificate"
    if "noperm" in said:
        return "give that user the right to all commands and channels of keys `hubd:*`"
    if "db index" in said:
        return "correct the number of the database, at the end of `url` below [cache]"
    if "no answer" in said and tls:
        return "start that server, or correct `url` below [cache]: `rediss://` is for a server that speaks TLS"
    return "start that server, or correct `url` below [cache]"


def same_names(examined: MachineState) -> Iterator[Finding]:
    """Hubs that share a name, as the running hub sees them."""
    if examined.status is None or not (replica := examined.status.replica):
        return
    hubs = [(replica.name, replica.url), *((peer.name, peer.url) for peer in replica.peers)]
    for name, count in Counter(name for name, _ in hubs).items():
        if name and count > 1:
            where = ", ".join(url or "unknown" for each, url in hubs if each == name)
            why = "a balancer that routes by name sends sessions of one to the other"
            fix = "write another one below [replica], or in hubd.env where it comes from there, and restart that hub"
            yield Finding("replica", "problem", f"{count} hubs are called {name}: {where}", why, fix)


def secret_files(examined: MachineState) -> Iterator[Finding]:
    """Files with secrets that others may read: those of `${file:...}`, hubd.env, the hub's own."""
    loaded = examined.loaded
    named = [path for path in loaded.files if path not in loaded.sources]
    secrets = {secret for secret in _secrets(examined.config) if len(secret) >= MIN_SECRET}
    own = [Path(base_directories.state_dir(), name) for name in SECRET]
    for path in dict.fromkeys((*named, *own)):
        with suppress(OSError):
            found = path.stat(follow_symlinks=path not in own).st_mode
            if stat.S_ISREG(found) and found & 0o044 and (path in own or _holds(path, secrets)):
                yield readable_by_others(path, stat.S_IMODE(found), "a secret")


def unreadable_files(examined: MachineState) -> Iterator[Finding]:
    """Files and directories of the hub that it cannot use, for instance because a command run by root made them."""
    yield from examined.unread
    said = {finding.what for finding in examined.unread}
    state = Path(base_directories.state_dir())
    for directory in (state, Path(base_directories.runtime_dir())):
        if why := _why_not_ours(directory):
            yield unreadable(directory, why)
    for path in [state / name for name in OWN]:
        if (why := _why_unread(path)) and (finding := unreadable(path, why)).what not in said:
            yield finding


def _why_not_ours(directory: Path) -> str:
    try:
        owner = os.lstat(directory).st_uid
    except OSError as error:
        return "" if error.errno == errno.ENOENT else error.strerror or str(error)
    return "" if owner == os.geteuid() else f"it belongs to another user (uid {owner}), and the hub uses only its own"


def _why_unread(path: Path) -> str:
    try:
        read_private(path, 0)
    except OSError as error:
        return "" if error.errno in (errno.ENOENT, errno.EFBIG) else error.strerror or str(error)
    return ""


def _holds(path: Path, secrets: Iterable[str]) -> bool:
    """True if any of the secrets is in the file."""
    text = read_plain(path, MAX_FILE_BYTES)[0].decode(errors="replace")
    return any(secret in text for secret in secrets)


def _secrets(config: HubConfig) -> Iterator[str]:
    of_hub = (config.token, config.sealing_key, config.cache.url, config.cache.password)
    yield from (secret.reveal() for secret in of_hub if secret is not None)
    for upstream in config.upstreams.values():
        yield from (secret.reveal() for secret in (*upstream.env.values(), *upstream.headers.values()))
