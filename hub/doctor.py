"""What is wrong, or soon will be, between hosts, hub and servers on this machine; and what to do about it.

Each check is a small function that looks at what `examine` gathered, or at one thing of the machine, and yields
findings. Nothing is changed, no server is started, and no request is sent: a URL is only connected to.
"""

import os
import re
import shutil
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from config import hostfile, places
from config.edits import EditError
from config.hosts import KEY, Machine, Place, all_hosts, command_of, every_user_file, is_found, url_of, user_places
from config.importing import Identity, Server, identities, survey
from config.installed import Record, Records, is_ours, text_at
from config.layers import Loaded, load_all
from config.schema import ConfigError, HubConfig, UpstreamConfig, dotted
from config.secrecy import secrets_in
from config.textedit import Refused
from config.unwrap import bare, package_of
from hub.starter import is_alive

GUI_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
"""What a program has as PATH that no shell has started."""
CONNECT_S: Final = 2.0
ALL_CONNECTS_S: Final = 6.0
"""For all addresses of all names together; who has not answered then is not waited for."""
_PINNED = re.compile(r"[@=]=?v?\d")


class Finding(Struct, frozen=True):
    """One thing to know. `problem`: something does not work; `warning`: it will not always, or costs something."""

    check: str
    level: Literal["problem", "warning", "note"]
    what: str
    why: str
    fix: str


class HostFile(Struct, frozen=True):
    """One file of a host that is here, as far as it could be read."""

    place: Place
    exists: bool
    entry: Any = None
    """Ours, or what has its name."""
    record: Record | None = None
    servers: tuple[Server, ...] = ()
    error: str = ""


class Examined(Struct, frozen=True, kw_only=True):
    """What the checks look at."""

    machine: Machine
    hubd: str
    """The absolute path of this program."""
    version: str
    status: Mapping[str, Any] | None
    """What the running hub says of itself; None: none runs."""
    loaded: Loaded | None
    error: ConfigError | None
    files: tuple[HostFile, ...]
    token: str | None

    @property
    def config(self) -> HubConfig:
        return HubConfig() if self.loaded is None else self.loaded.config

    def upstreams(self) -> Iterator[tuple[str, UpstreamConfig]]:
        """Those that are started, by name."""
        return ((name, each) for name, each in self.config.upstreams.items() if not each.disabled)


def examine(
    machine: Machine, *, hubd: str, version: str, status: Mapping[str, Any] | None, records: Path, token: Path
) -> Examined:
    """Read the configuration and the files of all hosts that are here."""
    loaded, error = None, None
    try:
        loaded = load_all(None, machine.environ)
    except ConfigError as found:
        error = found
    known = Records(records)
    files = [
        _host_file(place, known, machine)
        for host in all_hosts().values()
        if is_found(host, machine)
        for place in _places(machine, host.id)
    ]
    secret = None
    with suppress(OSError):
        secret = token.read_text().strip()
    return Examined(
        machine=machine,
        hubd=hubd,
        version=version,
        status=status,
        loaded=loaded,
        error=error,
        files=tuple(files),
        token=secret,
    )


def findings(examined: Examined) -> list[Finding]:
    """What all checks find, the worst first."""
    found = [finding for check in CHECKS for finding in check(examined)]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))


def _places(machine: Machine, id: str) -> list[Place]:
    host = all_hosts()[id]
    return [*every_user_file(host, machine), *(each for each in user_places(host, machine) if not each.path.exists())]


def _host_file(place: Place, records: Records, machine: Machine) -> HostFile:
    if not place.path.exists():
        return HostFile(place, exists=False)
    try:
        text = text_at(place.path)
        entry = hostfile.entries(place.kept, text).get(KEY)
        servers, _ = survey(place, text, machine.environ, machine.home)
    except (EditError, Refused) as error:
        return HostFile(place, exists=True, error=str(error))
    return HostFile(place, exists=True, entry=entry, record=records.get(place.path), servers=tuple(servers))


# --- the configuration ------------------------------------------------------------------------------------------------


def configuration(examined: Examined) -> Iterator[Finding]:
    """What hubd refuses, or doubts; unset variables are among it."""
    if examined.error is not None:
        for remark in examined.error.remarks or ():
            what = f"{remark.file}{f', line {remark.line}' if remark.line else ''}: {dotted(remark.keys)}"
            why = f"{remark.text}; until it is right the hub does not start, or keeps what it had"
            yield Finding("configuration", "problem", what.rstrip(": "), why, "correct it there, or by `hubd edit`")
        if not examined.error.remarks:
            yield Finding("configuration", "problem", str(examined.error), "it cannot be used", "correct it")
    if examined.loaded is not None:
        for remark in examined.loaded.warnings:
            why = "it works, and probably not as meant"
            yield Finding("configuration", "warning", str(remark), why, "correct it there")


def same_server_twice(examined: Examined) -> Iterator[Finding]:
    """One server under two names in the hub itself."""
    seen: dict[Identity, str] = {}
    for name, upstream in examined.upstreams():
        ((one, _),) = identities(HubConfig(upstreams={name: upstream})).items()
        first = seen.setdefault(one, name)
        if first != name:
            what = f"{first} and {name} are the same server"
            why = "it runs twice, and hosts see each of its tools twice"
            yield Finding("twice", "warning", what, why, f"run `hubd disable {name}`, or `hubd remove {name}`")


def commands(examined: Examined) -> Iterator[Finding]:
    """Programs that are not there, or only where a shell looks for them."""
    path = examined.machine.environ.get("PATH", os.defpath)
    for name, upstream in examined.upstreams():
        if upstream.command is None:
            continue
        own = upstream.env["PATH"].reveal() if "PATH" in upstream.env else None
        found = shutil.which(upstream.command, path=own or path)
        what = f"{name}: the command {upstream.command}"
        if found is None and os.path.exists(upstream.command) and "/" in upstream.command:
            fix = f"run `chmod +x {upstream.command}`" if os.path.isfile(upstream.command) else "name the program in it"
            yield Finding("command", "problem", f"{what} cannot be executed", "the server cannot start", fix)
        elif found is None:
            where = "" if "/" in upstream.command else f" (PATH is {own or path})"
            fix = "install it, or write the path of the program"
            yield Finding("command", "problem", f"{what} is not found{where}", "the server cannot start", fix)
        elif own is None and "/" not in upstream.command and shutil.which(upstream.command, path=GUI_PATH) is None:
            why = f"a hub that a desktop program starts has PATH={GUI_PATH} and does not find it there"
            fix = f'write command = "{found}", or run `hubd service install`, which keeps the PATH of this shell'
            yield Finding("path", "warning", f"{what} is found in {os.path.dirname(found)} only", why, fix)


def unpinned_packages(examined: Examined) -> Iterator[Finding]:
    """Package runners that take the newest version at every start."""
    for name, upstream in examined.upstreams():
        package = _unpinned([upstream.command or "", *upstream.args])
        if package is not None:
            what = f"{name}: {upstream.command} takes whatever version of {package} is the newest"
            why = "what its author, or whoever has the account, releases next runs here at the next start"
            sign = "==" if os.path.basename(upstream.command or "") == "pipx" else "@"
            yield Finding("version", "warning", what, why, f"write {bare(package)}{sign}VERSION in its args")


def _unpinned(words: list[str]) -> str | None:
    """The package without a version that this runs; None: it runs none, or a pinned one."""
    found = package_of(words)
    if found is None:
        runner, rest = os.path.basename(words[0]), words[1:]
        if runner == "uv" and rest[:2] == ["tool", "run"]:
            runner, rest = "uvx", rest[2:]
        if runner == "pipx" and rest[:1] == ["run"]:
            runner, rest = "uvx", rest[1:]
        if runner != "uvx" or not rest:
            return None
        if rest[0] in ("--from", "--spec") and len(rest) > 1:
            rest = rest[1:]
        if rest[0].startswith("-"):
            return None
        found = rest[0], []
    package = found[0]
    if package.startswith((".", "/", "git+", "http", "file:")) or _PINNED.search(package[1:]):
        return None
    return package


def addresses(examined: Examined) -> Iterator[Finding]:
    """URLs behind which nobody listens. All are tried at once."""
    wanted = [(name, upstream.url) for name, upstream in examined.upstreams() if upstream.url]
    reasons: dict[str, str] = {}
    threads = [threading.Thread(target=_try, args=(url, reasons), daemon=True) for url in {url for _, url in wanted}]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ALL_CONNECTS_S)
    for name, url in wanted:
        reason = reasons.get(url, "no answer")
        if reason:
            parts = urlsplit(url)
            what = (
                f"{name}: {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''} cannot be reached"
            )
            fix = "start that server, or correct its url; behind a proxy only a request can tell"
            yield Finding("url", "problem", what, reason, fix)


def _try(url: str, reasons: dict[str, str]) -> None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_S) as connection:
            if parts.scheme == "https":
                ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname).close()
        reasons[url] = ""
    except TimeoutError:
        reasons[url] = f"no answer within {CONNECT_S:.0f} s"
    except ssl.SSLCertVerificationError as error:
        reasons[url] = f"its certificate is not accepted: {error.verify_message}"
    except (OSError, UnicodeError) as error:
        reasons[url] = getattr(error, "strerror", None) or str(error)


def open_files(examined: Examined) -> Iterator[Finding]:
    """Files with secrets that others may read, and private directories that are not."""
    for path in examined.loaded.sources if examined.loaded else ():
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o044 and _holds_secrets(path):
                what = f"others may read {path} (mode {mode:03o}), and it holds what looks like secrets"
                why = "every program of every user here can use them"
                yield Finding("mode", "warning", what, why, f"run `chmod 600 {path}`")
    for name, directory in (("state", places.state_dir()), ("runtime", places.runtime_dir())):
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(directory).st_mode)
            if mode & 0o077:
                what = f"others may enter the {name} directory {directory} (mode {mode:03o})"
                yield Finding("mode", "problem", what, "hubd refuses to use it", f"run `chmod 700 {directory}`")


def _holds_secrets(path: Path) -> bool:
    from config.document import parse
    from config.source import Problem

    try:
        return next(secrets_in(parse(path.read_text(), path).tree), None) is not None
    except (Problem, OSError, ValueError):
        return False


# --- hosts ------------------------------------------------------------------------------------------------------------


def double_imports(examined: Examined) -> Iterator[Finding]:
    """Servers that a host still starts itself."""
    known = identities(HubConfig(upstreams=dict(examined.upstreams())))
    for file in examined.files:
        for server in file.servers:
            name = known.get(server.identity) or known.get(server.original)
            if name is not None and not server.values.get("disabled"):
                title, id = file.place.title, file.place.host.id
                what = f'{title} starts "{server.key}" itself, and the hub has it as {name}'
                why = "it runs twice, and the host sees each of its tools twice"
                yield Finding("double", "warning", what, why, f"run `hubd import {id} --disable-originals`")


def entries(examined: Examined) -> Iterator[Finding]:
    """Hosts that do not have the hub, or in a way that does not work."""
    having = {file.place.host.id for file in examined.files if file.entry is not None}
    for file in examined.files:
        title, id, path = file.place.title, file.place.host.id, file.place.path
        if file.error:
            why = f"{file.error}; the host may ignore all of it"
            yield Finding("host", "warning", f"{title}: {path} cannot be read", why, "correct it")
        elif file.entry is None:
            if id not in having or file.place.host.editors:
                why = "it does not reach any server of the hub"
                yield Finding("entry", "warning", f"{title} does not have the hub", why, f"run `hubd install {id}`")
        elif not is_ours(file.entry, file.record) and url_of(file.entry) is None:
            why = "so the host does not reach the hub by it"
            fix = f"give it another name in {path}, then run `hubd install {id}`"
            yield Finding("entry", "warning", f'{title}: its entry "{KEY}" does not start hubd', why, fix)
        elif command_of(file.entry):
            yield from _entry_by_command(file, examined)
        else:
            yield from _entry_by_url(file, examined)


def _entry_by_command(file: HostFile, examined: Examined) -> Iterator[Finding]:
    title, fix = file.place.title, f"run `hubd install {file.place.host.id}`"
    command = command_of(file.entry)[0]
    if not os.path.isabs(command):
        if shutil.which(command, path=GUI_PATH) is None:
            what = f"{title}: its entry starts `{command}` without a path"
            why = f"a host that no shell has started looks in {GUI_PATH} only"
            yield Finding("entry", "warning", what, why, fix)
    elif not os.access(command, os.X_OK):
        what = f"{title}: its entry starts {command}, which is not there"
        yield Finding("entry", "problem", what, "the host has no servers at all", fix)


def _entry_by_url(file: HostFile, examined: Examined) -> Iterator[Finding]:
    url, title = url_of(file.entry) or "", file.place.title
    fix = f"run `hubd install --http {file.place.host.id}`"
    if (
        examined.loaded is not None
        and urlsplit(url).netloc.rpartition(":")[2] != examined.config.listen.rpartition(":")[2]
    ):
        what = f"{title}: its entry goes to another port than the hub listens on ({examined.config.listen})"
        yield Finding("entry", "problem", what, "the host does not reach the hub", fix)
    elif examined.config.auth == "token" and (examined.token is None or examined.token not in str(file.entry)):
        what = f"{title}: its entry does not have the hub's token"
        yield Finding("entry", "problem", what, "the hub refuses the host", fix)


# --- the daemon -------------------------------------------------------------------------------------------------------


def daemon(examined: Examined) -> Iterator[Finding]:
    """Whether the hub runs, as what, and with which of its servers."""
    status = examined.status
    if status is None:
        why = "the first host that needs it starts it, if it has `hubd connect`; by URL it is not reached"
        yield Finding("daemon", "note", "no hub is running", why, "run `hubd service install` to have it always")
        return
    if status.get("version") != examined.version:
        what = f"the hub that runs is version {status.get('version')}, and this is {examined.version}"
        fix = "run `hubd stop`; the next host, or the service manager, starts the new one"
        yield Finding("daemon", "warning", what, "it was not started anew after an update", fix)
    config = status.get("config") or {}
    if pending := config.get("pending"):
        what = f"the hub that runs does not use yet: {', '.join(pending)}"
        yield Finding("daemon", "warning", what, "such settings count from its start on", "run `hubd stop`")
    for upstream in status.get("upstreams") or ():
        if upstream.get("state") == "failed":
            what = f"{upstream.get('name')}: it has failed"
            why = str(upstream.get("last_error") or "nobody knows why").partition("\n")[0]
            yield Finding("upstream", "problem", what, why, f"see `hubd logs {upstream.get('name')}`")


def other_daemons(examined: Examined) -> Iterator[Finding]:
    """Hubs of this user whose sockets are elsewhere, so that some hosts reach one and some the other."""
    ours = places.runtime_dir()
    for pid, directory in _daemons():
        if directory != ours:
            what = f"another hub runs (process {pid}) with its sockets in {directory}, and not in {ours}"
            why = "HUBD_RUNTIME_DIR or XDG_RUNTIME_DIR differ, so hosts reach different hubs and servers run twice"
            yield Finding("daemon", "warning", what, why, f"use one value everywhere, and run `kill {pid}`")


def _daemons() -> Iterator[tuple[int, str]]:
    """Hubs of this user that run, and the directories of their sockets. Linux only."""
    for number in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not number.isdigit():
            continue
        with suppress(OSError):
            if os.stat(f"/proc/{number}").st_uid != os.getuid():
                continue
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            if b"--stdio" in words or not _is_daemon(words):
                continue
            lines = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
            pairs = [line.decode(errors="replace").partition("=") for line in lines]
            environ = {name: value for name, _, value in pairs}
            yield int(number), places.runtime_dir(environ)


def _is_daemon(words: list[bytes]) -> bool:
    return any(
        second == b"serve" and (first == b"hub" or first.endswith(b"/hubd")) for first, second in pairwise(words)
    )


def stale_sockets(examined: Examined) -> Iterator[Finding]:
    """Sockets that nobody listens on: neither a hub, which holds its lock, nor a service manager in its place.

    They are looked up, since to connect would have a service manager start the hub.
    """
    try:
        if is_alive(f"{places.runtime_dir()}/hubd.lock"):
            return
        lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    except OSError:
        return
    listening = {parts[7] for line in lines if len(parts := line.split(None, 7)) == 8 and parts[3] == "00010000"}
    for name in ("hubd.sock", "control.sock"):
        path = f"{places.runtime_dir()}/{name}"
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(path).st_mode) and path not in listening:
                why = "a hub was killed; the next one replaces it, and until then hosts without `hubd connect` fail"
                yield Finding("socket", "note", f"nobody listens on {path}", why, "start the hub, or remove the file")


def left_behind(examined: Examined) -> Iterator[Finding]:
    """Servers of hubs that were killed."""
    from upstreams.orphans import orphans

    for orphan in orphans():
        what = f"process {orphan.pid} ({orphan.command}) was left behind by a hub that is dead (process {orphan.hub})"
        why = "it takes memory, and may hold ports and locks that a new one needs"
        yield Finding("orphan", "warning", what, why, f"run `kill {orphan.pid}`; a hub that starts does so, too")


CHECKS: Final[tuple[Callable[[Examined], Iterator[Finding]], ...]] = (
    configuration,
    same_server_twice,
    commands,
    addresses,
    entries,
    double_imports,
    daemon,
    other_daemons,
    stale_sockets,
    left_behind,
    open_files,
    unpinned_packages,
)
