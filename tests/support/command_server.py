"""A process that has imported all of hubd, and starts each command by a fork: see `commands.py`.

Each request comes in one packet, with four descriptors: the command's standard ones, and the socket on which its
process id and its end are told.
"""

import atexit
import contextlib
import fcntl
import gc
import json
import os
import pkgutil
import secrets
import selectors
import socket
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Struct

PACKAGES = ("hub", "config", "upstreams", "cache")
LARGEST = 1 << 20
UPSTREAMS = """
[upstreams.a]
command = "true"
[upstreams.b]
url = "https://localhost/mcp"
"""
LEFT = ("hub.hubd_script", "hub.mcp_hubd_script", "hub.__main__", "upstreams.demo")
"""Modules that act when they are imported."""


def import_all() -> None:
    """Import whatever a command may need."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(__import__(package).__path__, f"{package}."):
            if not module.name.startswith(LEFT) and not module.name.endswith("__main__"):
                __import__(module.name)


def warm_up() -> None:
    """Fill the caches that every command fills: of regular expressions, of types, of parsers."""
    from config.hosts.known_hosts import all_hosts
    from config.loading.assemble import load_all
    from config.show.json_schema import schema
    from hub.cli.parser import Commands

    commands = Commands()
    for name in list(commands):
        commands[name].format_help()
    for type in Struct.__subclasses__():
        if type.__module__.startswith("hub.control."):
            msgspec.json.Decoder(type)
    with TemporaryDirectory(dir="/tmp") as home:  # where a fork has such is for it to find out
        main = Path(home, "hubd.toml")
        main.write_text(UPSTREAMS)
        load_all(main, {"HOME": home})
    all_hosts()
    schema()


class Identity(NamedTuple):
    """What a process is known by, drawn when its module is imported: each fork draws it anew."""

    name: str
    draw: Callable[[], object]
    modules: list[ModuleType]
    """All that have it by that name."""

    @classmethod
    def of(cls, module: ModuleType, name: str, draw: Callable[[], object]) -> "Identity":
        value = getattr(module, name)
        return cls(name, draw, [each for each in list(sys.modules.values()) if getattr(each, name, None) is value])

    def renew(self) -> None:
        """Draw it anew, for all."""
        value = self.draw()
        for module in self.modules:
            setattr(module, self.name, value)


def identities() -> list[Identity]:
    """What each fork draws anew."""
    from config import diff
    from hub.linux import child_marks
    from hub.wire import hub_chains

    return [
        Identity.of(child_marks, "THIS_HUB", child_marks._name_of_this_hub),
        Identity.of(hub_chains, "THIS_HUB", lambda: secrets.token_hex(8)),
        Identity.of(diff, "_THIS_RUN", lambda: secrets.token_bytes(16)),
    ]


def serve(requests: socket.socket, identities: list[Identity]) -> None:
    """Fork for each request, and tell how each fork ended, until nobody can make a request any more."""
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fileobj)
                    _tell_end(key.fd, *key.data)
                elif not _start(requests, selector, identities):
                    return


def _start(requests: socket.socket, selector: selectors.BaseSelector, identities: list[Identity]) -> bool:
    """Fork for one request, and tell the process id; False: there is none."""
    packet, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 4)
    if not packet:
        return False
    *standard, told = descriptors
    if (pid := os.fork()) == 0:
        _close_all(selector, told)
        for each in identities:
            each.renew()
        _become(json.loads(packet), standard)
    for descriptor in standard:
        os.close(descriptor)
    _tell(told, pid)
    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
    return True


def _close_all(selector: selectors.BaseSelector, told: int) -> None:
    """Close what is not for a fork: else nobody would hear the end of another one before that of this one."""
    for key in selector.get_map().values():
        for descriptor in (key.fd, *(key.data or ())[1:]):
            os.close(descriptor)
    selector.close()
    os.close(told)


def _tell_end(pidfd: int, pid: int, told: int) -> None:
    """Tell how a fork has ended."""
    _, status = os.waitpid(pid, 0)
    _tell(told, os.waitstatus_to_exitcode(status))
    os.close(told)
    os.close(pidfd)


def _tell(told: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more; others go on
        os.write(told, f"{number}\n".encode())


def _become(request: dict[str, object], standard: list[int]) -> NoReturn:
    """Be the command: as if the interpreter had just started."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        number = ("stdin", "stdout", "stderr").index(name)
        stream = open(number, mode, buffering=1 if name == "stderr" else -1, encoding="utf-8", errors=errors)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request["leads"]:
        os.setsid()
    if request["in_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    sys.argv = [str(part) for part in request["argv"]]  # type: ignore[attr-defined]
    code = 1
    try:
        from hub.__main__ import main

        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    import_all()
    warm_up()
    gc.collect()
    gc.freeze()  # collections of a fork would copy all this
    serve(socket.socket(fileno=int(sys.argv[1])), identities())
