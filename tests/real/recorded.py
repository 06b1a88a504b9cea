"""Real servers, and records of a hub's messages to them and to its hosts."""

import contextlib
import json
import sys
from pathlib import Path

from tests.real.tcp_relay import TcpRelay
from tests.real.traffic import TEE
from tests.support.processes import PACKAGES

SERVERS = Path(__file__).parent / "servers"
OFFICIAL = PACKAGES / "@modelcontextprotocol"


class Records:
    """Records of the hub's conversations with real servers and real hosts."""

    def __init__(self, directory):
        self.directory = directory
        self.relays = {"upstream": {}, "host": {}}

    def lines(self, part):
        """The files of tee.py of one part: "upstream" or "host"."""
        return sorted(self.directory.glob(f"{part}-*"))

    def tee(self, part, name, argv):
        """A command that runs `argv`, a stdio server, and records its conversation."""
        return [sys.executable, "-I", "-S", str(TEE), str(self.directory / f"{part}-{name}"), *map(str, argv)]

    @contextlib.contextmanager
    def relay(self, part, name, port=None):
        """A port before `port` whose traffic is recorded."""
        relay = self.relays[part][name] = TcpRelay(port)
        try:
            yield relay
        finally:
            relay.stop()


def table(name, **entries):
    """One `[upstreams.NAME]` of a hubd.toml; JSON's strings and arrays are TOML's."""
    lines = [f"[upstreams.{name}]"]
    for key, value in entries.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{each} = {json.dumps(text)}" for each, text in value.items())
            lines.append(f"{key} = {{ {inner} }}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines)
