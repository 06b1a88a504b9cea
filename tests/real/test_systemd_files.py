"""The files of systemd/: configurations of hubs are valid, and balancers end TLS for the configured name."""

import contextlib
import datetime
import http.client
import json
import socket
import ssl
import subprocess
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.real.balancers import PUBLIC, fleet, hub_configurations
from tests.support.attached import DEMO
from tests.support.processes import HUBD, own_directories

META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """One for the public name, signed by itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, PUBLIC)])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(PUBLIC)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (file := tmp_path_factory.mktemp("tls") / "hub.pem").write_bytes(made.public_bytes(encoding) + secret)
    return file


class SecureConnection(http.client.HTTPConnection):
    """To a port of this machine, by the public name."""

    def __init__(self, port, certificate):
        super().__init__(PUBLIC, 443, timeout=60)
        self._port, self._context = port, ssl.create_default_context(cafile=certificate)

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self.sock = self._context.wrap_socket(plain, server_hostname=PUBLIC)


def test_hosts_come_by_the_public_name_over_tls(tmp_path, certificate):
    with fleet(tmp_path, DEMO, "haproxy", "nginx", certificate=certificate) as it:
        for balancer, url in it.urls.items():
            with contextlib.closing(SecureConnection(urlsplit(url).port, certificate)) as connection:
                for id in range(4):
                    assert call(connection, it.token, id) == (200, id)
            seen = {it.balancers[balancer].wait_for(r" 200 .*?(\S+)$")[1] for _ in range(4)}
            assert seen == {it.address("a"), it.address("b")}


def call(connection, token, id):
    """Status and id of the answer to a modern call."""
    params = {"name": "demo__add", "arguments": {"a": 40, "b": 2}, "_meta": META}
    headers = {
        "Host": PUBLIC,
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "demo__add",
    }
    body = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    connection.request("POST", "/mcp", json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())["id"]


@pytest.mark.parametrize("number", range(3))
def test_its_configurations_of_hubs_are_right(number, tmp_path):
    env = own_directories(tmp_path) | {"HUBD_NAME": "a", "HUBD_URL": "http://10.0.0.5:8765"}
    text = hub_configurations()[number]
    for name, content in {"hub-token": "t" * 32, "hub-sealing-key": "0f" * 32, "redis": "secret"}.items():
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text(content)
        text = text.replace(f"/run/secrets/{name}", str(tmp_path / name))
    (file := tmp_path / "hubd.toml").write_text(f"{text}\n{DEMO}")
    done = subprocess.run([HUBD, "validate", file], env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
