"""`hubd connect`: bytes between a host's stdio and the daemon's unix socket; the daemon is started if it is absent.

Hosts start one of these per conversation, some of them twice, so it imports next to nothing (FINDINGS 4): no trio, no
msgspec, no argparse, json, socket, pathlib or typing. It understands no MCP. Before the host's own bytes it sends one
line that says who the host is (`hub.preamble`).

When the daemon goes away the shim says so and exits. `Pump.run` returning `LOST` is where reconnecting will be put.
"""

import _socket
import os
import select

from config import places
from hub.starter import Unavailable, attach, log_path

CHUNK_BYTES = 1 << 18
PIPE_BYTES = 4096
"""PIPE_BUF: a pipe that polls writable takes this much without blocking."""
FILE_KIND, PIPE_KIND, SOCKET_KIND = 0o170000, 0o010000, 0o140000
"""Of a file's mode; importing stat would only cost."""
MAX_LABEL = 64

EX_OK, EX_USAGE, EX_UNAVAILABLE, EX_CONFIG, EX_INTERRUPTED = 0, 2, 69, 78, 130
LOST = EX_UNAVAILABLE

USAGE = """usage: hubd connect [--host NAME] [--profile NAME] [--upstream NAME]

Speak MCP on standard input and output with the hub, which is started if it is not running.

  --host NAME      what this host is called in `hubd status` and logs
  --profile NAME   the set of upstreams and rules to use
  --upstream NAME  this one upstream only, under its own tool names

exit codes: 0 the host has finished, 2 wrong usage, 69 the hub cannot be reached or went away, 78 bad configuration
"""


def run(arguments: list[str]) -> int:
    """`hubd connect` with these arguments; the exit code."""
    try:
        options = _options(arguments)
    except ValueError as error:
        return _say(f"{error}\n\n{USAGE}", EX_USAGE)
    if "help" in options:
        os.write(1, USAGE.encode())
        return EX_OK
    try:
        directory = places.private_dir(places.runtime_dir())
        hub = attach(directory)
        try:  # noqa: SIM105
            hub.sendall(preamble(options))
        except (BrokenPipeError, ConnectionResetError):  # it refuses hosts for now, and has said why
            pass
        code = Pump(hub).run()
    except places.NotPrivate as error:
        return _say(f"{error}; or name another directory in HUBD_RUNTIME_DIR", EX_CONFIG)
    except Unavailable as error:
        return _say(str(error), EX_UNAVAILABLE)
    except OSError as error:
        return _say(f"the hub cannot be reached: {error.strerror}", EX_UNAVAILABLE)
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    if code == LOST:
        _say(f"the hub closed the connection; its log is {log_path()}. Start this server again to reconnect.", code)
    return code


def _say(text: str, code: int) -> int:
    try:  # noqa: SIM105  (importing contextlib would cost more than all of this)
        os.write(2, f"hubd connect: {text.rstrip()}\n".encode(errors="backslashreplace"))
    except OSError:
        pass
    return code


def _options(arguments: list[str]) -> dict[str, str]:
    """Names and values of the options; argparse alone would cost half of the shim's time."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help"):
            return {"help": ""}
        if name not in ("--host", "--profile", "--upstream"):
            raise ValueError(f"there is no option {name}")
        if not equals:
            if not rest:
                raise ValueError(f"{name} needs a value")
            value = rest.pop(0)
        if not (0 < len(value) <= MAX_LABEL and value.isascii() and value.isprintable()):
            raise ValueError(f"{name} takes 1 to {MAX_LABEL} printable ASCII characters")
        options[name[2:]] = value
    return options


def preamble(options: dict[str, str]) -> bytes:
    """The line that precedes the host's own; values are printable ASCII, so two escapes make them JSON."""
    members = ['"hubd":1']
    for name, value in options.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        members.append(f'"{name}":"{escaped}"')
    return ("{" + ",".join(members) + "}\n").encode()


# --- the pump ---------------------------------------------------------------------------------------------------------


class Pump:
    """Copies both ways until one side ends. At most one chunk waits in each direction, then its source is not read.

    When the host ends its input, the hub's is ended too, and what it still has to say is passed on.
    """

    def __init__(self, hub: _socket.socket, stdin: int = 0, stdout: int = 1) -> None:
        self._hub = hub
        self._stdin = stdin
        self._outlet = Outlet(stdout)
        self._stdout = self._outlet.descriptor
        self._up = memoryview(b"")
        self._down = memoryview(b"")
        self._host_ended = False
        self._hub_listens = True
        self._result: int | None = None
        self._poll = select.poll()
        self._watched: set[int] = set()

    def run(self) -> int:
        """Pump; `EX_OK` when the host has finished, `LOST` when the hub went away before that."""
        hub = self._hub.fileno()
        while self._result is None:
            self._watch(hub)
            for descriptor, events in self._poll.poll():
                if descriptor == self._stdin:
                    self._from_host()
                elif descriptor == self._stdout:
                    self._to_host(events)
                elif self._up and events & select.POLLOUT:
                    self._to_hub()
                elif not self._down:
                    self._from_hub()
                if self._result is not None:
                    break
        return self._result

    def _watch(self, hub: int) -> None:
        """Ask for what can be acted upon, and for nothing else: a hang-up that is not acted upon would spin."""
        wanted = {
            self._stdin: select.POLLIN if not (self._up or self._host_ended) and self._hub_listens else None,
            hub: (select.POLLOUT if self._up else 0) | (0 if self._down else select.POLLIN) or None,
            self._stdout: select.POLLOUT if self._down else 0,  # 0: errors only, the host may be gone
        }
        for descriptor, events in wanted.items():
            if events is not None:
                self._poll.register(descriptor, events)
                self._watched.add(descriptor)
            elif descriptor in self._watched:
                self._poll.unregister(descriptor)
                self._watched.remove(descriptor)

    def _from_host(self) -> None:
        try:
            data = os.read(self._stdin, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal that was hung up
            data = b""
        if data:
            self._up = memoryview(data)
            self._to_hub()
        else:
            self._host_ended = True
            self._end_input()

    def _to_hub(self) -> None:
        try:
            self._up = self._up[self._hub.send(self._up, _socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return
        except OSError:  # it takes no more; what it said before is still read
            self._up, self._hub_listens = memoryview(b""), False

    def _end_input(self) -> None:
        try:
            self._hub.shutdown(_socket.SHUT_WR)
        except OSError:
            self._hub_listens = False

    def _from_hub(self) -> None:
        try:
            data = self._hub.recv(CHUNK_BYTES, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._down = memoryview(data)
        else:
            self._result = EX_OK if self._host_ended else LOST

    def _to_host(self, events: int) -> None:
        if not self._down or not events & select.POLLOUT:
            self._result = EX_OK  # nobody reads what we write: the host is gone
            return
        try:
            self._down = self._down[self._outlet.write(self._down) :]
        except BlockingIOError:
            return
        except OSError:
            self._result = EX_OK


class Outlet:
    """Where the hub's bytes go, and how much of them at once without ever waiting.

    The host's own descriptor stays in blocking mode, since the host may share it. A pipe is opened once more, which
    gives it a mode of its own; a socket is told with each write.
    """

    def __init__(self, stdout: int) -> None:
        self.descriptor = stdout
        self._at_once = PIPE_BYTES
        self._socket: _socket.socket | None = None
        kind = os.fstat(stdout).st_mode & FILE_KIND
        if kind == SOCKET_KIND:
            self._socket = _socket.socket(fileno=os.dup(stdout))
        elif kind == PIPE_KIND:
            try:
                self.descriptor = os.open(f"/proc/self/fd/{stdout}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:  # not Linux, somebody else's, or without a reader
                return
            self._at_once = CHUNK_BYTES

    def write(self, data: memoryview) -> int:
        """How many bytes were taken, at least one if it polls writable; OSError if nobody reads."""
        if self._socket is not None:
            return self._socket.send(data, _socket.MSG_DONTWAIT)
        return os.write(self.descriptor, data[: self._at_once])
