"""Real hosts sign in at the hub: they find its metadata, get a token of a real server, and call a tool."""

import json
import os
import sys
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.real.recorded import table
from tests.support.everything import everything_but
from tests.support.oauth.rig import INTROSPECTION_CLIENT, PUBLIC_CLIENT
from tests.support.oauth.sign_in import Walker
from tests.support.processes import NODE, NODE_ENV, PACKAGES, PYTHON_1, PYTHON_2, ROOT, free_port, running, running_hub

HOSTS = Path(__file__).parent / "hosts"
ECHO = ROOT / "tests" / "guard" / "echo_server.py"
MCP_REMOTE = PACKAGES / "mcp-remote" / "dist" / "proxy.js"
CLIENTS = {
    "python-1": ([PYTHON_1, HOSTS / "signing1.py"], {}),
    "python-2": ([PYTHON_2, HOSTS / "signing2.py"], {}),
    "npm-1": ([NODE, HOSTS / "signing.cjs"], {"sdk": 1}),
    "npm-2": ([NODE, HOSTS / "signing.cjs"], {"sdk": 2}),
}
SERVERS = ["oidc_provider", "django_toolkit", "glewlwyd"]


class Team:
    """A hub behind a real authorization server, and alice, who signs in there."""

    def __init__(self, hub, server, kind):
        self.hub, self.kind, self._server = hub, kind, server
        self.method = "client_secret_basic" if kind == "glewlwyd" else "none"
        self.known = {"client_id": PUBLIC_CLIENT} if kind == "oidc_provider" else {}
        """oidc-provider lets nobody register who writes a scope of the hub into the registration, as the SDKs do."""

    def sign_in(self, page, redirect):
        """What a browser does with the page that a host opens: the address that it is sent back to."""
        walker = Walker()
        if self.kind == "glewlwyd":
            asked = dict(pair.split("=", 1) for pair in page.partition("?")[2].split("&"))
            walker.glewlwyd_sign_in(self._server.issuer.removesuffix("/oidc"), asked["client_id"], "mcp")
            page += "&g_continue"
        return walker, walker.walk(page, redirect)


@contextmanager
def team(oauth, directory, kind):
    listen = f"127.0.0.1:{free_port()}"
    url = f"http://{listen}/mcp"
    server = oauth.glewlwyd(url) if kind == "glewlwyd" else getattr(oauth, kind)()
    id, secret = INTROSPECTION_CLIENT.split(":")
    asked = ""
    if kind == "django_toolkit":  # its tokens can only be asked about, and it has no `sub`
        asked = f'subject = "username"\nintrospection = {{ client_id = "{id}", client_secret = "{secret}" }}\n'
    config = (
        'auth = "oauth"\n[policy]\ndefault = "allow"\n[access]\nrequired_scopes = ["mcp"]\n'
        f'[[access.issuers]]\nname = "team"\nissuer = "{server.issuer}"\n{asked}'
        + table("echo", command=sys.executable, args=["-I", "-S", str(ECHO)])
    )
    directory.mkdir()
    with running_hub(directory, config, auth="oauth", listen=listen) as hub:
        assert hub.url == url
        yield Team(hub, server, kind)
    assert '"warning"' not in (directory / "hubd.log").read_text()


@pytest.mark.parametrize(
    ("client", "kind"),
    everything_but(
        [
            ("python-1", "oidc_provider"),
            ("python-2", "django_toolkit"),
            ("npm-1", "glewlwyd"),
            ("npm-2", "oidc_provider"),
        ],
        product(CLIENTS, SERVERS),
    ),
)
def test_a_host_signs_in_and_calls_a_tool(oauth, tmp_path, client, kind):
    argv, more = CLIENTS[client]
    with team(oauth, tmp_path / "hub", kind) as hub:
        redirect = f"http://127.0.0.1:{free_port()}/callback"
        plan = {
            "url": hub.hub.url,
            "redirect": redirect,
            "method": hub.method,
            "tool": "echo__echo",
            "arguments": {"text": f"hello from {client}"},
            **more,
            **hub.known,
        }
        env = {**os.environ, **NODE_ENV}
        with running([*argv, json.dumps(plan)], tmp_path / "host.log", env=env) as host:
            page = host.wait_for(r"^OPEN (\S+)$")[1]
            _, back = hub.sign_in(page, redirect)
            host.write(f"{back}\n".encode())
            assert host.wait_for(r"^RESULT (.*)$")[1] == f"hello from {client}"


@pytest.mark.parametrize("kind", everything_but(["django_toolkit"], SERVERS))
def test_mcp_remote_signs_in_and_passes_calls_on(oauth, tmp_path, kind):
    with team(oauth, tmp_path / "hub", kind) as hub:
        env = {**os.environ, "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "mcp-auth"), "NO_COLOR": "1", "PATH": "/nowhere"}
        known = ["--static-oauth-client-info", json.dumps(hub.known)] if hub.known else []
        if kind == "glewlwyd":
            known = ["--static-oauth-client-metadata", json.dumps({"token_endpoint_auth_method": hub.method})]
        with running([NODE, MCP_REMOTE, hub.hub.url, *known], tmp_path / "remote.log", env=env, merged=True) as remote:
            page = remote.wait_for(r"^(http://127\.0\.0\.1:\d+/\S+)$")[1]
            walker, back = hub.sign_in(page, "http://localhost:")
            assert walker.follow(back).status == 200, remote.said
            remote.wait_for("Proxy established")
            call = {"name": "echo__echo", "arguments": {"text": "hello from mcp-remote"}}
            begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

            def send(**message):
                remote.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

            send(id=1, method="initialize", params=begin)
            remote.wait_for(r'^\{.*"serverInfo"')  # before that it has no session to send the others in
            send(method="notifications/initialized")
            send(id=2, method="tools/call", params=call)
            assert remote.wait_for(r'^\{.*"text": ?"(hello[^"]*)"')[1] == "hello from mcp-remote"
