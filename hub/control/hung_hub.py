"""A hub that hangs: found out by a connection of its own; and the process that a hub is.

A hub that hangs is stopped, waits for a disk, or swaps: the kernel still takes connections for it, and nobody answers
them. So one who hears nothing for `QUIET_S` connects once more and asks what every hub answers at once, whatever else
it does; another `PROBE_S` of silence are the proof. It may go on at any time: nothing that it was asked is lost.
"""

import socket
import struct
from pathlib import Path
from typing import Final

from hub.control.client_errors import HubHangs
from hub.linux.peer_credentials import ForeignPeer, peer_pid, refuse_foreign_hub
from hub.wire.vocabulary import CONTROL_PROBE

QUIET_S: Final = 1.5
PROBE_S: Final = 2.5
LOCK: Final = "hubd.lock"
"""The file beside the control socket that names the process of the hub."""


def connect_within(sock: socket.socket, path: Path, patience_s: float) -> None:
    """Connect to a listener whose backlog may be full. Whatever follows waits without a limit. Raises BlockingIOError:
    it is still full; OSError: nothing listens there, or nothing can."""
    sock.settimeout(None)  # else a full backlog is no reason to wait
    whole, rest = divmod(patience_s, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(whole), int(rest * 1e6)))
    sock.connect(str(path))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 0))


def refuse_hung(path: Path, patience_s: float = PROBE_S) -> None:
    """Return if the hub with this control socket answers, or if none is there. Raises HubHangs: it does neither."""
    pid = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            connect_within(probe, path, patience_s)
            refuse_foreign_hub(probe, str(path))
            pid = peer_pid(probe)
            probe.settimeout(patience_s)
            probe.sendall(CONTROL_PROBE)
            probe.recv(1)
        except (TimeoutError, BlockingIOError):
            raise HubHangs(pid_in_lock(path) or pid) from None
        except (OSError, ForeignPeer):
            return


def pid_in_lock(path: Path) -> int:
    """The pid that the lock beside the control socket `path` names: of the hub that runs, or of the last one; 0: none
    can be read."""
    try:
        return int(path.with_name(LOCK).read_text())
    except (OSError, ValueError):
        return 0
