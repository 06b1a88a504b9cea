"""Checks of the configuration, and of the servers in it."""

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlsplit

from config import base_directories
from config.diagnostics import Problem, dot_keys
from config.hosts.host_servers import identities
from config.hosts.unwrap_proxies import bare, package_of, python_tool
from config.loading.document import parse
from config.safe_reading import fetch
from config.secret_references import NUL
from config.secrets.detection import secrets_in
from config.settings import HubConfig, words_of_flow
from hub.cli.checks.findings import Finding, Restrict, WriteCommand, join_few, readable_by_others
from hub.cli.checks.machine_state import GUI_PATH, MachineState
from hub.cli.render.words import group

CONNECT_S: Final = 2.0
ALL_CONNECTS_S: Final = 6.0
"""Time limit for all addresses together."""
MAX_LEGS: Final = 3
_PINNED = re.compile(r"[@=]=?v?\d")


def configuration(examined: MachineState) -> Iterator[Finding]:
    """Problems and warnings of the configuration; unset variables are among them."""
    if examined.error is not None:
        resolved = {row.name for row in examined.seen.upstreams if row.state != "unresolved"}
        for problem in examined.error.diagnostics:
            what = f"{problem.file}{f', line {problem.line}' if problem.line else ''}: {dot_keys(problem.keys)}"
            then = f"the hub starts without {problem.unresolved}" if problem.unresolved else "the hub does not start"
            why = f"{problem.text}; until it is right {then}, or keeps what it had"
            if problem.unresolved in resolved and problem.text.startswith("the variable "):
                why = f"{problem.text}. So it is in this shell; the running hub has it"
                yield Finding("configuration", "note", what.rstrip(": "), why, "nothing, while that hub runs")
                continue
            fix = problem.remedy or "correct it there, or by `hubd edit`"
            yield Finding("configuration", "problem", what.rstrip(": "), why, fix)
        if not examined.error.diagnostics:
            yield Finding("configuration", "problem", str(examined.error), "it cannot be used", "correct it")
    for diagnostic in examined.loaded.warnings:
        why = "it works, but probably not as intended"
        yield Finding("configuration", "warning", str(diagnostic), why, "correct it there")


def same_server_twice(examined: MachineState) -> Iterator[Finding]:
    """One server under several names in the hub itself."""
    seen = group(
        (one, name) for name, each in examined.upstreams() for one in identities(HubConfig(upstreams={name: each}))
    )
    for names in seen.values():
        if len(names) > 1:
            what = f"{join_few(names)} are the same server"
            why = f"it runs {'twice' if len(names) == 2 else f'{len(names)} times'}, and hosts see its tools as often"
            fix = f"run {' and '.join(f'`hubd disable {name}`' for name in names[1:])}, or `hubd remove` in its place"
            yield Finding("twice", "warning", what, why, fix, names=tuple(names))


def three_legs(examined: MachineState) -> Iterator[Finding]:
    """Hosts that have private data, untrusted text and a way outward, where no rule keeps them apart."""
    if examined.loaded.config.policy.trifecta != "off":
        return
    flows = {name: words_of_flow(each) for name, each in examined.upstreams()}
    whole = []
    for host in examined.seen.hosts:
        profile = examined.loaded.config.profiles.get(host.profile or "")
        servers = flows.keys() & profile.servers if profile is not None and profile.servers else flows.keys()
        if len(frozenset[str]().union(*(flows[name] for name in servers))) == MAX_LEGS:
            whole.append(host.label or host.host)
    if whole:
        names = tuple(name for name, words in flows.items() if words)
        what = f"{join_few(sorted(set(whole)))} can read private data and untrusted text, and send something outward"
        why = "text of a stranger may have a model send your data away; what a host does by itself is not known here"
        fix = f'write trifecta = "ask" below [policy], or give them profiles without one of {join_few(names)}'
        yield Finding("three legs", "warning", what, why, fix, names=names)


def commands(examined: MachineState) -> Iterator[Finding]:
    """Programs that do not exist, or only on the PATH of a shell."""
    shell = examined.machine.environ.get("PATH", os.defpath)
    recorded = "PATH" in examined.loaded.own_lines
    path = examined.loaded.environ.get("PATH", shell)
    away = (row for row in examined.seen.upstreams if row.state != "connected")
    missed = {row.name for row in away if "was not found" in (row.last_error or "")}
    causes: dict[tuple[str, str, str], list[str]] = {}
    for name, upstream in examined.upstreams():
        if upstream.command is None or NUL in upstream.command:  # a reference, which is read at the start
            continue
        own = upstream.env["PATH"].reveal() if "PATH" in upstream.env else None
        found = shutil.which(upstream.command, path=own or path)
        if found is None and own is None and (found := shutil.which(upstream.command, path=shell)):
            cause = "unrecorded"
        elif found is None:
            there = "/" in upstream.command and os.path.exists(upstream.command)
            cause = "not executable" if there else "missing"
        elif own is not None or "/" in upstream.command:
            continue
        elif name in missed:
            cause = "found since" if recorded else "missed"
        elif not recorded and shutil.which(upstream.command, path=GUI_PATH) is None:
            cause = "shell only"
        else:
            continue
        causes.setdefault((cause, upstream.command, found or ""), []).append(name)
    for (cause, command, found), names in causes.items():
        yield _about_command(cause, command, found, names)


def _about_command(cause: str, command: str, found: str, names: list[str]) -> Finding:
    place, check = os.path.dirname(found), "path"
    level: Literal["problem", "warning"] = "problem"
    why = f"{'the server' if len(names) == 1 else 'these servers'} cannot start"
    fix = f'run `hubd env capture`, which records the PATH of this shell, or write command = "{found}"'
    match cause:
        case "not executable":
            check, state = "command", "cannot be executed"
            is_file = os.path.isfile(command)
            fix = f"run `chmod +x {shlex.quote(command)}`" if is_file else "name the program in it"
        case "missing":
            check, state = "command", "is not found"
            fix = f"install it{' there, or correct the path' if os.path.isabs(command) else ', or write its full path'}"
            if "/" not in command and len(words := command.split()) > 1:
                fix = f'write command = "{words[0]}", and what follows as args = [...]'
        case "unrecorded":
            state = f"is on the PATH of this shell ({place}), and not on that in hubd.env"
        case "found since":
            state = f"is found ({place}), and was not when the hub looked for it last"
            fix = f"run `hubd restart {names[0] if len(names) == 1 else 'NAME'}`"
        case "missed":
            state = f"is on the PATH of this shell ({place}), and not on the hub's"
        case _:
            level, state = "warning", f"is found in {place} only"
            why = f"a hub that a desktop program starts has PATH={GUI_PATH} and does not find it there"
    what = f"{join_few(names)}: the command {command} {state}"
    repair = WriteCommand(tuple(names), found) if cause in ("unrecorded", "missed") else None
    return Finding(check, level, what, why, fix, names=tuple(names), repair=repair)


def working_directories(examined: MachineState) -> Iterator[Finding]:
    """Working directories that do not exist."""
    for name, upstream in examined.upstreams():
        if upstream.cwd is not None and NUL not in upstream.cwd and not os.path.isdir(upstream.cwd):
            what = f"{name}: its cwd {upstream.cwd} is not a directory"
            fix = "make that directory, or correct cwd"
            yield Finding("cwd", "problem", what, "the server cannot start", fix, names=(name,))


def packages_to_pin(examined: MachineState) -> Iterator[Finding]:
    """Package runners that take the newest version at every start."""
    found: dict[str, tuple[str, str]] = {}
    for name, upstream in examined.upstreams():
        package = _find_unpinned([upstream.command or "", *upstream.args])
        if package is not None:
            sign = "==" if os.path.basename(upstream.command or "") == "pipx" else "@"
            found[name] = package, f"{bare(package)}{sign}VERSION"
    if not found:
        return
    if len(found) == 1:
        ((name, (package, pinned)),) = found.items()
        what = f"{name}: {package} is not pinned"
        why = "each start runs its latest release, even a compromised one; `hubd pins` shows only what its tools say"
    else:
        what = f"{len(found)} packages are not pinned: {join_few([package for package, _ in found.values()])}"
        why = "each start runs their latest releases, even a compromised one; `hubd pins` shows only what tools say"
        pinned = next(iter(found.values()))[1] + " and the like"
    yield Finding("version", "warning", what, why, f"write {pinned} in args", names=tuple(found))


def _find_unpinned(words: list[str]) -> str | None:
    """The package without a version that a command runs; None: it runs none, or a pinned one."""
    package, _ = package_of(words) or ("", [])
    if not package:
        tool = python_tool(words) or []
        if tool[:1] in (["--from"], ["--spec"]) and len(tool) > 1:
            tool = tool[1:]
        package = tool[0] if tool and not tool[0].startswith("-") else ""
    if not package or package.startswith((".", "/", "git+", "http", "file:")) or _PINNED.search(package[1:]):
        return None
    return package


def addresses(examined: MachineState) -> Iterator[Finding]:
    """URLs at which nothing listens. All are tried at once."""
    urls = [(name, upstream.url) for name, upstream in examined.upstreams() if upstream.url]
    wanted = [(name, url) for name, url in urls if NUL not in url]
    reasons: dict[str, Future[str]] = {url: Future() for _, url in wanted}
    for url, future in reasons.items():  # not an executor, which would wait for all of them in the end
        threading.Thread(target=_try, args=(url, future), daemon=True).start()
    wait(reasons.values(), ALL_CONNECTS_S)
    unreached: dict[tuple[str, str], list[str]] = {}
    for name, url in wanted:
        reason = reasons[url].result() if reasons[url].done() else "no answer"
        if reason:
            parts = urlsplit(url)
            address = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
            unreached.setdefault((address, reason), []).append(name)
    for (address, reason), names in unreached.items():
        what = f"{join_few(names)}: {address} cannot be reached"
        fix = "start that server, or correct its url; a proxy is not tried"
        yield Finding("url", "problem", what, reason, fix, names=tuple(names))


def _try(url: str, reason: Future[str]) -> None:
    """Connect; the reason why that fails, or ""."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_S) as connection:
            if parts.scheme in ("https", "wss"):
                ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname).close()
        reason.set_result("")
    except TimeoutError:
        reason.set_result(f"no answer within {CONNECT_S:.0f} s")
    except ssl.SSLCertVerificationError as error:
        reason.set_result(f"its certificate is not accepted: {error.verify_message}")
    except (OSError, UnicodeError) as error:
        reason.set_result(getattr(error, "strerror", None) or str(error))


def open_files(examined: MachineState) -> Iterator[Finding]:
    """Files with secrets that others may read, and private directories that are not."""
    for path in examined.loaded.sources:
        with suppress(OSError, Problem, ValueError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o044 and any(secrets_in(parse(fetch(path).data.decode(), path).tree)):
                yield readable_by_others(path, mode, "what looks like secrets")
    for name, directory in (("state", base_directories.state_dir()), ("runtime", base_directories.runtime_dir())):
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(directory).st_mode)
            if mode & 0o077:
                what = f"others may enter the {name} directory {directory} (mode {mode:03o})"
                fix = f"run `chmod 700 {shlex.quote(str(directory))}`"
                repair = Restrict(str(directory), 0o700)
                yield Finding("mode", "problem", what, "hubd refuses to use it", fix, repair=repair)


def sandboxes(examined: MachineState) -> Iterator[Finding]:
    """Servers that ended in their sandboxes, which may have kept from them what they need."""
    for row in examined.seen.upstreams:
        box = row.sandbox
        if box is None or not box.blamed or row.state == "connected":
            continue
        what = f"{row.name} ended in its sandbox ({box.preset})"
        why = f"it could not {box.wants} {box.path}" if box.path else "what it needs may be hidden there"
        fix = f'write sandbox = "off" below [upstreams.{row.name}], if that makes it work'
        if box.path and box.preset != "shield":
            path = os.path.dirname(box.path) if box.wants == "write" else box.path
            table = f'{{ preset = "{box.preset}", {box.wants} = {json.dumps([path], ensure_ascii=False)} }}'
            fix = f"write sandbox = {table} below [upstreams.{row.name}]"
        yield Finding("sandbox", "warning", what, why, fix, names=(row.name,))


def missing_sandboxes(examined: MachineState) -> Iterator[Finding]:
    """Servers without a sandbox, since there is none on this machine."""
    boxes = [(row.sandbox.why, row.name) for row in examined.seen.upstreams if row.sandbox is not None]
    for reason, names in group(box for box in boxes if box[0].startswith("bubblewrap")).items():
        why = "such a server can read the hub's token and state, and change them"
        fix = "install bubblewrap, or let it use user namespaces; without either nothing can be done here"
        yield Finding(
            "sandbox", "warning", f"{join_few(names)} runs without a sandbox: {reason}", why, fix, tuple(names)
        )


def roots(examined: MachineState) -> Iterator[Finding]:
    """Servers that asked for the roots of a host and will get none as they are configured."""
    off = {name for name, upstream in examined.upstreams() if upstream.roots == "none"}
    asked = [row for row in examined.seen.upstreams if row.withheld_roots]
    if without := [row.name for row in asked if row.mode in ("shared", "per person", "singleton") or row.name in off]:
        what = f"{join_few(without)} asked for the roots of a host, and got none"
        why = "a server that learns by roots where its host works does not learn it"
        fix = 'set roots = "host" there, and each host has a session with its own roots'
        yield Finding("roots", "warning", what, why, fix, names=tuple(without))
