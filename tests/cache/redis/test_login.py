"""Reaching the store: addresses, names and passwords, TLS, what a user may do, and what is never shown."""

import datetime
import ipaddress
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cache.redis.url import CLIENT, address_of
from config.diagnostics import ConfigError
from config.setting_declarations import Secret
from config.settings import CacheConfig
from tests.support.redis_server import Store, redis_server, stores

SECRET = "correct horse"


def certificates(directory, *, names=("localhost",)) -> None:
    """ca.pem, cert.pem and key.pem; also for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)

    def name(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def built(subject, key, issuer, signer, *extensions):
        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    ca, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca_extensions = (x509.BasicConstraints(True, None), True), (usage, True)
    (directory / "ca.pem").write_bytes(built("ca", ca, "ca", ca, *ca_extensions))
    alternatives = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    (directory / "cert.pem").write_bytes(
        built("redis", own, "ca", ca, (x509.SubjectAlternativeName(alternatives[: len(names)]), False))
    )
    unencrypted = serialization.NoEncryption()
    key = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
    (directory / "key.pem").write_bytes(key)


async def works(store: Store) -> None:
    async with stores(store):
        store.invalidate("s", None)
        await store.until_written()
        await store.keep()
        assert await store.found() == "value"


@pytest.mark.real
async def test_tcp_with_a_number_of_a_database(tmp_path):
    with redis_server(tmp_path, tcp=True) as server:
        await works(Store(f"redis://127.0.0.1:{server.port}/3"))
        assert server.do("DBSIZE") == 0
        await works(Store(f"{server.url}?db=2"))
        assert [line.split(":")[0] for line in server.do("INFO", "keyspace").decode().splitlines()[1:]] == [
            "db2",
            "db3",
        ]


@pytest.mark.real
async def test_a_password_and_a_wrong_one(tmp_path, caplog):
    with redis_server(tmp_path, f'requirepass "{SECRET}"', tcp=True) as server:
        await works(Store(server.url, password=Secret(SECRET)))
        await works(Store(f"redis://127.0.0.1:{server.port}", password=Secret(SECRET)))
        for wrong, reason in ((None, "cache.password"), (Secret("wr0ng"), "invalid username-password")):
            store = Store(server.url, password=wrong)
            async with stores(store, is_coherent=False):
                await store.until_away()
                assert reason in store.statistics().reason
                shown = f"{store!r} {store.statistics()} {store.told.news} {caplog.text}"
                assert "wr0ng" not in shown
                assert SECRET not in shown


@pytest.mark.real
async def test_a_user_who_may_do_what_is_needed_and_one_who_may_not(tmp_path):
    enough = "user hubd on >pw ~hubd:* &hubd:* -@all +hello +info +ping +select +eval +hmget +hset +hdel +hlen"
    enough += " +expire +time +strlen +get +set +del +unlink +publish +subscribe +multi +exec"
    deaf = "user deaf on >pw ~hubd:* resetchannels +@all"
    reader = "user reader on >pw ~hubd:* &hubd:* +@all -eval"
    with redis_server(tmp_path, enough, deaf, reader) as server:
        await works(Store(server.url, username="hubd", password=Secret("pw")))
        for user in ("deaf", "reader"):
            store = Store(server.url, username=user, password=Secret("pw"))
            async with stores(store, is_coherent=False):
                await store.until_away()
                assert "permission" in store.statistics().reason
                assert not store.is_coherent


@pytest.mark.real
async def test_tls(tmp_path):
    certificates(tmp_path)
    with redis_server(tmp_path, tls=tmp_path) as server:
        await works(Store(f"rediss://localhost:{server.port}/1", tls_ca=str(tmp_path / "ca.pem")))
        for url, ca, reason in (
            (f"rediss://localhost:{server.port}", None, "certificate"),
            (f"rediss://127.0.0.1:{server.port}", "ca.pem", "IP address mismatch"),
            (f"rediss://localhost:{server.port}", "absent.pem", "No such file"),
            (f"redis://localhost:{server.port}", None, "onnection"),
        ):
            store = Store(url, tls_ca=str(tmp_path / ca) if ca else None)
            async with stores(store, is_coherent=False):
                await store.until_away()
                assert reason in store.statistics().reason


@pytest.mark.real
async def test_something_else_listens_there(nursery):
    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await stream.receive_some()

    listeners = await nursery.start(trio.serve_tcp, answer, 0)
    store = Store(f"redis://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    async with stores(store, is_coherent=False):
        await store.until_away()
        assert store.statistics().reason
    nursery.cancel_scope.cancel()


URLS = [
    ("redis://h", ("h", 6379, "", 0, False)),
    ("redis://h:1/2", ("h", 1, "", 2, False)),
    ("redis://[::1]:7", ("::1", 7, "", 0, False)),
    ("rediss://h/", ("h", 6379, "", 0, True)),
    ("unix:///run/a%20b.sock?db=1", ("", 6379, "/run/a b.sock", 1, False)),
    ("unix:///run/b.sock", ("", 6379, "/run/b.sock", 0, False)),
]


@pytest.mark.parametrize(("url", "parts"), URLS)
def test_addresses(url, parts):
    address = address_of(CacheConfig(url=Secret(url)))
    assert (address.host, address.port, address.path, address.db, address.tls) == parts
    assert (address.username, address.password) == (None, None)


def test_who_logs_in_is_not_shown():
    config = CacheConfig(url=Secret("rediss://h"), username="ben", password=Secret("other"), tls_ca="ca.pem")
    address = address_of(config)
    assert (address.username, address.password, address.ca) == ("ben", Secret("other"), "ca.pem")
    assert repr(address) == "<StoreAddress h:6379, db 0, TLS>"
    assert str(address_of(CacheConfig(url=Secret("redis://[::1]")))) == "[::1]:6379"


WRONG = (
    "|h:1|http://h|redis://|redis:///1|redis://h:x|redis://h/x|redis://h?x=1|unix://|redis://[|redis://h/-1|redis://h#f"
    "|redis://u:sesame@h|redis://:sesame@h/1"
)


@pytest.mark.parametrize("url", WRONG.split("|"))
def test_addresses_that_are_none(url):
    with pytest.raises(ConfigError, match=r"^cache\.url: ") as caught:
        address_of(CacheConfig(url=Secret(url)))
    assert "sesame" not in str(caught.value)


def test_certificates_without_tls():
    with pytest.raises(ConfigError, match="rediss://"):
        address_of(CacheConfig(url=Secret("redis://h"), tls_ca="ca.pem"))
    with pytest.raises(ConfigError):
        address_of(CacheConfig())


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "coredis", None)
    with pytest.raises(ConfigError, match=rf"not installed; run `{sys.executable} -m pip install 'coredis.*'`"):
        Store("redis://h")
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/pipx/venvs/mcp-hubd")
    with pytest.raises(ConfigError, match=r"run `pipx inject mcp-hubd 'coredis.*'`"):
        Store("redis://h")


def test_the_client_to_install_is_that_of_the_extra():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert CLIENT in project["optional-dependencies"]["redis"]


def test_the_client_is_loaded_only_when_it_runs():
    heavy = ("coredis", "anyio", "cache.redis.connection_pair")
    code = f"import sys, cache.redis.store; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
