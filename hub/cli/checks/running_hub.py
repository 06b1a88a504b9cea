"""Checks of the running hub itself: that it answers, its version and address, and that it is not root."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.hosts.hub_entries import url_of
from config.loading.parse_addresses import split_listen
from hub.cli.checks.findings import Finding
from hub.cli.checks.machine_state import MachineState
from hub.daemon.banner import ADVICE, ROOT

SYSTEMD: Final = Path("/run/systemd/system")
"""There where systemd is in charge (sd_booted(3))."""
SQUATTED = (
    "another user of this machine held that address when the hub started, and hosts with the usual URL show their "
    "token there; the token was replaced, and HTTP is closed to all hosts"
)
UNSQUAT = (
    "find out who it is, or name another port with `listen` in hubd.toml; then run `hubd stop`, and `hubd install` "
    "for hosts that have the URL. On a machine with several users prefer `hubd connect`, which needs no token"
)


def daemon(examined: MachineState) -> Iterator[Finding]:
    """The running hub: its version, its address and settings that wait for a restart."""
    status = examined.status
    if examined.hangs:
        why = "no host gets an answer; its process is stopped, or the machine swaps"
        fix = "wait for it, or run `hubd stop --force`; the next host, or `hubd start`, starts another"
        yield Finding("daemon", "problem", examined.hangs.partition(". ")[0], why, fix)
        return
    if status is None:
        why = "hosts with `hubd connect` start it when they need it; hosts with a URL cannot reach it"
        keeps = "run `hubd service install` to keep one running" if SYSTEMD.exists() else "run `hubd start`"
        yield Finding("daemon", "note", "no hub is running", why, keeps)
        return
    if status.version != examined.version:
        what = f"the running hub is version {status.version}, this command is {examined.version}"
        fix = "run `hubd stop`; the next host, or the service manager, starts the new one"
        yield Finding("daemon", "warning", what, "it was not restarted after an update", fix)
    if (listen := status.listen) and listen.wanted:
        what = f"the hub listens on {listen.url} instead of {listen.wanted}"
        if listen.squatted:
            yield Finding("daemon", "problem", what, SQUATTED, UNSQUAT)
            return
        yield _elsewhere(what, listen.wanted, examined)
    if status.config.pending:
        what = f"the running hub does not use yet: {', '.join(status.config.pending)}"
        yield Finding("daemon", "warning", what, "these settings take effect when it starts", "run `hubd stop`")


def _elsewhere(what: str, wanted: str, examined: MachineState) -> Finding:
    """The hub could not have its address. Hosts that start `hubd connect`, or have the URL of now, do not need it."""
    why, fix = "that address was taken when it started", "stop what uses that port and run `hubd stop`; or name another"
    fix += " one with `listen` in hubd.toml"
    if any(f":{split_listen(wanted)[1]}/" in (url_of(file.entry) or "") for file in examined.files):
        return Finding("daemon", "warning", what, f"{why}; hosts with the usual URL cannot reach it", fix)
    why += "; no host of this machine has that URL. It keeps the port that it has now"
    return Finding("daemon", "note", what, why, f"nothing, unless a host is to have the usual URL: then {fix}")


def root(examined: MachineState) -> Iterator[Finding]:
    """A hub that has, or would have, the rights of root."""
    what = ROOT if examined.seen.root else ""
    if examined.status is None and examined.root:
        what = "you are root, so a hub started here, and every server it starts, would run as root"
    if what:
        why = "a fault or an attack in any of them reaches the whole machine"
        yield Finding("root", "warning", what, why, ADVICE)
