"""Debian's gnome-keyring on a session bus of its own, without a desktop: nobody is asked to unlock anything."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.support.debian import program
from tests.support.processes import Process, running

BUS = """<busconfig>
<type>session</type>
<listen>unix:tmpdir=/tmp</listen>
<policy context="default">
<allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/>
<allow own="*"/>
</policy>
</busconfig>
"""
PASSWORD = "a login password"
ATTEMPTS = 200


@contextlib.contextmanager
def session_bus(directory: Path) -> Iterator[str]:
    """The address of a bus on which nothing can be started."""
    file = directory / "bus.conf"
    file.write_text(BUS)
    daemon = program("dbus-daemon")
    argv = [daemon.path, f"--config-file={file}", "--nofork", "--nopidfile", "--print-address"]
    with running(argv, directory / "bus.log", env=daemon.env) as process:
        yield process.wait_for(r"unix:.*")[0]


@contextlib.contextmanager
def gnome_keyring(directory: Path, address: str, *, unlocked: bool) -> Iterator[Process]:
    """The keyring whose files are in `directory`. One that is new has to be unlocked, which sets its password."""
    daemon = program("gnome-keyring-daemon")
    places = {name: str(directory) for name in ("HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")}
    env = {**daemon.env, **places, "DBUS_SESSION_BUS_ADDRESS": address}
    argv = [daemon.path, "--foreground", "--components=secrets", f"--control-directory={directory / 'control'}"]
    with running([*argv, "--unlock"] if unlocked else argv, directory / "keyring.log", env=env) as process:
        process.end_input(PASSWORD.encode() if unlocked else b"")
        _wait_for_service(address)
        yield process


def _wait_for_service(address: str) -> None:
    """Wait until somebody on the bus keeps secrets."""
    name = "string:org.freedesktop.secrets"
    sender = program("dbus-send")
    asked = ["--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.NameHasOwner", name]
    argv, env = [str(sender.path), *asked], {**sender.env, "DBUS_SESSION_BUS_ADDRESS": address}
    for _ in range(ATTEMPTS):
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        if "boolean true" in done.stdout:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"no keyring has come: {done.stdout}{done.stderr}")
