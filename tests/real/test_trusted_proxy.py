"""A real relay says who is behind it: nginx asks for a password, and names the person to the hub."""

import base64
import contextlib
import http.client
import json
import os
import tempfile
from pathlib import Path

import pytest
import trio

from config.remembered_facts import Memory
from config.security_settings import AccessConfig, TrustedProxy
from config.setting_declarations import Secret
from config.settings import HubConfig
from hub.app import Hub
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.sealing import Sealer, Signer
from hub.sign_in.connection_owner import ConnectionOwners
from tests.real.balancers import wait_for_port
from tests.support.attached import INITIALIZE
from tests.support.debian import program
from tests.support.processes import free_port, running, running_hub

SECRET = "s3cret-of-the-proxy-0123456789"
NGINX_UID = 12346
CONFIG = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {directory}/a; proxy_temp_path {directory}/b; fastcgi_temp_path {directory}/c;
    uwsgi_temp_path {directory}/d; scgi_temp_path {directory}/e;
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            auth_basic hub;
            auth_basic_user_file {directory}/people;
            proxy_pass http://127.0.0.1:{hub};
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "";
            proxy_set_header X-Person $remote_user;
            {secret}
        }}
    }}
}}
"""


@contextlib.contextmanager
def nginx(port, hub_port, secret="", uid=None):
    """nginx at `port`, in front of a hub; alice and bob have the password `word`."""
    binary = program("nginx")
    with tempfile.TemporaryDirectory(prefix="hubd-nginx-") as name:
        directory = Path(name)
        directory.chmod(0o777)
        (directory / "people").write_text("alice:{PLAIN}word\nbob:{PLAIN}word\n")
        shown = f"proxy_set_header X-Hubd-Proxy-Secret {secret};" if secret else ""
        file = directory / "nginx.conf"
        file.write_text(CONFIG.format(directory=directory, port=port, hub=hub_port, secret=shown))
        before = [] if uid is None else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        argv = [*before, binary.path, "-e", "stderr", "-p", directory, "-c", file]
        with running(argv, directory / "log", env=binary.env) as process:
            wait_for_port(port, process)
            yield


def ask(port, message, person=None, front=None, **headers):
    """An answer: status and session. `person` shows a password; `front` is the port that `Host` names."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **message})
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    sent["Host"] = f"localhost:{front or port}"
    if person is not None:
        sent["Authorization"] = "Basic " + base64.b64encode(f"{person}:word".encode()).decode()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/mcp", body, sent)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["mcp-session-id"]


BEGIN = {"method": "initialize", "params": INITIALIZE}
PING = {"method": "ping"}


def test_it_is_known_by_its_secret(tmp_path):
    port = free_port()
    config = (
        f'auth = "proxy"\nallowed_hosts = ["localhost:{port}"]\n'
        f'[access.proxy]\nheader = "X-Person"\nsecret = "{SECRET}"\n[policy]\ndefault = "allow"\n'
    )
    with running_hub(tmp_path, config, auth="proxy") as hub:
        direct = int(hub.url.split(":")[2].partition("/")[0])
        with nginx(port, direct, SECRET):
            status, session = ask(port, BEGIN, "alice")
            assert status == 200
            at = {"Mcp-Session-Id": session}
            assert ask(port, PING, "alice", **at)[0] == 200
            assert ask(port, PING, "bob", **at)[0] == 404, "bob is somebody else"
            assert ask(port, PING, "bob", **at, **{"X-Person": "alice"})[0] == 404, "nobody names himself"
            assert ask(port, BEGIN)[0] == 401, "nginx asks for a password"
        assert ask(direct, PING, **at, **{"X-Person": "alice"})[0] == 400
        wrong = {"X-Person": "alice", "X-Hubd-Proxy-Secret": f"{SECRET}x"}
        assert ask(direct, PING, **at, **wrong)[0] == 400
        assert ask(direct, PING, **at)[0] == 401
        shown = (tmp_path / "hubd.log").read_text()
        assert SECRET not in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run nginx as another user")
async def test_it_is_known_by_its_user(tmp_path, monkeypatch, nursery):
    """The hub is this process, which is root's, and would not tell users from one another."""
    monkeypatch.setattr(ConnectionOwners, "_is_blind", lambda ends: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port()
    proxy = TrustedProxy(header="X-Person", peer_uid=(NGINX_UID,))
    hosts = (f"localhost:{port}",)
    config = HubConfig(auth="proxy", token=Secret("t" * 20), allowed_hosts=hosts, access=AccessConfig(proxy=proxy))
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    await nursery.start(listener.run)
    direct = listener.address[1]

    def people():
        with nginx(port, direct, uid=NGINX_UID):
            status, session = ask(port, BEGIN, "alice")
            at = {"Mcp-Session-Id": session}
            found = status, ask(port, PING, "alice", **at)[0], ask(port, PING, "bob", **at)[0]
        with nginx(port, direct):
            of_root = ask(port, BEGIN, "alice")[0]
        return *found, of_root, ask(direct, BEGIN, **{"X-Person": "alice"})[0]

    assert await trio.to_thread.run_sync(people) == (200, 200, 404, 400, 400)
    nursery.cancel_scope.cancel()
