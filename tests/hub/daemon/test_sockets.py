"""The daemon's two unix sockets: who finds the one of hosts finds that of commands as well."""

import socket
from contextlib import asynccontextmanager, nullcontext

import pytest

import hub.daemon.serve
from config.hub_paths import control_path, socket_path
from config.loading.assemble import load_all
from hub.app import WALL
from hub.daemon.bind_http import Bound, CannotListen
from hub.daemon.logs.setup import HubLog
from upstreams.redact import CommonSecrets


async def test_commands_can_connect_as_soon_as_hosts_can(tmp_path, monkeypatch):
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    real = hub.daemon.serve.unix_listener
    bound = []

    @asynccontextmanager
    async def noted(path, given):
        if path == socket_path():
            with socket.socket(socket.AF_UNIX) as command:
                command.connect(str(control_path()))
        async with real(path, given) as listener:
            bound.append(path)
            if len(bound) == 2:
                raise CannotListen("the test has seen enough")
            yield listener

    monkeypatch.setattr(hub.daemon.serve, "unix_listener", noted)
    monkeypatch.setattr(hub.daemon.serve, "receive", lambda *_signals: nullcontext())  # it would leave them ignored
    config = tmp_path / "hubd.toml"
    config.write_text("drain_s = 1\n")
    with socket.socket() as tcp:
        monkeypatch.setattr(hub.daemon.serve, "bind", lambda _config, _memory: Bound(tcp))
        with pytest.raises(CannotListen):
            await hub.daemon.serve.serve_daemon(
                load_all(config, {}), lambda: None, shown=False, hub_log=HubLog(WALL), secrets=CommonSecrets()
            )
    assert bound == [control_path(), socket_path()]
