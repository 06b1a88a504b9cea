"""Hubs behind a real balancer, as systemd/README.md says: its files are run, with other addresses.

    with fleet(directory, UPSTREAMS, "haproxy") as it: ...    # it.urls["haproxy"], it.hubs["a"]

Two `hubd serve`, one `redis-server`, HAProxy or nginx or both. Everything ends with the block.
"""

import contextlib
import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.debian import program
from tests.support.processes import HUBD, ROOT, Hub, Process, free_port, own_directories, running
from tests.support.redis_server import RedisServer, redis_server

SYSTEMD = ROOT / "systemd"
NAMES = ("a", "b")
IN_THE_FILES = {"a": "10.0.0.5:8765", "b": "10.0.0.6:8765"}
PUBLIC = "hub.example.com"
STORE = "redis://10.0.0.9:6379/0"
TICK = threading.Event()
"""Never set: for short waits in a thread."""
PATIENCE_S = 60


def hub_configurations() -> list[str]:
    """The configurations of hubs in systemd/README.md."""
    found = re.findall(
        r"^```toml\n(.*?)^```$", (SYSTEMD / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found
    return found


def replace(text: str, changes: Mapping[str, str]) -> str:
    """`text` with all replacements made; each must apply."""
    for old, new in changes.items():
        assert old in text, f"{old!r} is not there any more"
        text = text.replace(old, new)
    return text


class Fleet(NamedTuple):
    """Hubs that run behind balancers."""

    urls: dict[str, str]
    """The URLs, by balancer."""
    token: str
    hubs: dict[str, Hub]
    store: RedisServer
    balancers: dict[str, Process]
    """Each prints a line per ended request: `CALL STATUS ADDRESS`, where CALL is its header X-Call."""

    def address(self, name: str) -> str:
        """The address of a hub, HOST:PORT."""
        return self.hubs[name].url.split("/")[2]

    def served(self) -> dict[str, str]:
        """Call -> the hub that it was sent to last, for all ended requests."""
        names = {self.address(name): name for name in self.hubs}
        lines = [line.split() for balancer in self.balancers.values() for line in balancer.said]
        return {words[0]: names.get(words[-1], "nobody") for words in lines if len(words) > 2}


# --- the hubs ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def a_hub(directory: Path, config: str, name: str, port: int) -> Iterator[Hub]:
    """A hub of the fleet: `hubd serve` with the common configuration and an environment of its own."""
    directory.mkdir(exist_ok=True)
    env = {**own_directories(directory), "HUBD_NAME": name, "HUBD_URL": f"http://127.0.0.1:{port}"}
    (file := directory / "hubd.toml").write_text(config)
    argv = [HUBD, "serve", "--config", file, "--listen", f"127.0.0.1:{port}"]
    with running(argv, directory / "hubd.log", env=env, cwd=directory) as process:
        url = process.wait_for(r"https?://[^\s\"]+/mcp")[0]
        yield Hub(url, None, env, file, process)


def hubs_config(
    directory: Path, upstreams: str, store: RedisServer, token: str, ports: Sequence[int] = (), auth: str = "token"
) -> str:
    """The configuration of a fleet, for these upstreams; `ports` are those of balancers."""
    fronts = [f"{name}:{port}" for port in ports for name in ("127.0.0.1", "localhost")]
    directory.mkdir(exist_ok=True)
    for name, text in {"token": token, "key": secrets.token_hex(32)}.items():
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(text)
    text = replace(
        hub_configurations()[-1],
        {
            'listen = "0.0.0.0:8765"\nbehind_tls_proxy = true\n': f'auth = "{auth}"\n',
            f'["{PUBLIC}:443"]': json.dumps([f"{PUBLIC}:443", *fronts]),
            "/run/secrets/hub-token": str(directory / "token"),
            "/run/secrets/hub-sealing-key": str(directory / "key"),
            'password = "${file:/run/secrets/redis}"\n': "",
            STORE: f"redis://127.0.0.1:{store.port}/0",
        },
    )
    head, mark, tables = text.partition("[cache]")
    origins = f"allowed_origins = {json.dumps([f'http://{each}' for each in fronts])}\n"
    return f"{head}{origins}startup_grace_s = 60.0\n{mark}{tables}\n{upstreams}"


# --- the balancers ----------------------------------------------------------------------------------------------------


class Front(NamedTuple):
    """The address and manner in which a balancer listens."""

    port: int
    affinity: bool = True
    """Whether legacy sessions have affinity, as in the file."""
    certificate: Path | None = None
    """With its key; None: without TLS."""


def haproxy_config(front: Front, addresses: Mapping[str, str]) -> str:
    """haproxy.cfg, listening there; it logs each request."""
    listen = f"127.0.0.1:{front.port}"
    log = (
        "frontend mcp\n    log stdout format raw local0\n    http-request capture req.hdr(X-Call) len 40\n"
        '    log-format "%[capture.req.hdr(0)] %ST %si:%sp"'
    )
    text = replace(
        (SYSTEMD / "haproxy.cfg").read_text(),
        {
            "frontend mcp": log,
            ":443 ssl crt /etc/haproxy/hub.pem alpn": f"{listen} ssl crt {front.certificate} alpn",
            **{IN_THE_FILES[name]: address for name, address in addresses.items()},
        },
    )
    if front.certificate is None:
        text = re.sub(r" ssl crt .*", "", text)
    return text if front.affinity else re.sub(r"^ *stick.*\n", "", text, flags=re.MULTILINE)


def nginx_config(directory: Path, front: Front, addresses: Mapping[str, str]) -> str:
    """nginx.conf in a whole configuration, listening there; it logs each request."""
    secure = "" if front.certificate is None else " ssl"
    text = replace(
        (SYSTEMD / "nginx.conf").read_text(),
        {
            "listen 443 ssl;": f"listen 127.0.0.1:{front.port}{secure};",
            "/etc/nginx/hub.pem": str(front.certificate),
            "/etc/nginx/hub.key": str(front.certificate),
            **{IN_THE_FILES[name]: address for name, address in addresses.items()},
        },
    )
    if front.certificate is None:
        text = re.sub(r"^ *ssl_certificate.*\n", "", text, flags=re.MULTILINE)
    if not front.affinity:
        text = re.sub(r'^ *"~.*\n', "", text, flags=re.MULTILINE)
    temporary = "".join(
        f"    {kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        ("user root;\n" if os.geteuid() == 0 else "")
        + f"daemon off;\nworker_processes 1;\npid {directory}/nginx.pid;\nerror_log stderr warn;\n"
        + f"events {{ worker_connections 4096; }}\nhttp {{\n{temporary}"
        + "    log_format calls '$http_x_call $status $upstream_addr';\n    access_log /dev/stdout calls;\n"
        + f"{text}}}\n"
    )


@contextlib.contextmanager
def a_balancer(kind: str, directory: Path, front: Front, addresses: Mapping[str, str]) -> Iterator[Process]:
    """HAProxy or nginx before hubs at these addresses."""
    directory.mkdir(exist_ok=True)
    binary = program(kind)
    if kind == "haproxy":
        (file := directory / "haproxy.cfg").write_text(haproxy_config(front, addresses))
        argv = [binary.path, "-db", "-f", file]
    else:
        (file := directory / "nginx.conf").write_text(nginx_config(directory, front, addresses))
        argv = [binary.path, "-e", "stderr", "-p", directory, "-c", file]
    with running(argv, directory / f"{kind}.log", env=binary.env) as process:
        wait_for_port(front.port, process)
        yield process


def wait_for_port(port: int, process: Process) -> None:
    """Wait until something listens at the port; neither balancer says so."""
    for _ in range(PATIENCE_S * 20):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        TICK.wait(0.05)
    raise AssertionError(f"nobody listens on port {port}:\n{process.tail()}")


# --- all together -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def fleet(
    directory: Path,
    upstreams: str,
    *balancers: str,
    affinity: bool = True,
    auth: str = "token",
    certificate: Path | None = None,
) -> Iterator[Fleet]:
    """Two hubs of one configuration with a store behind balancers; `upstreams` are tables of hubd.toml."""
    fronts, token = {kind: Front(free_port(), affinity, certificate) for kind in balancers}, secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis_server(directory, tcp=True))
        ports = [front.port for front in fronts.values()]
        config = hubs_config(directory / "secrets", upstreams, store, token, ports, auth)
        hubs = {name: stack.enter_context(a_hub(directory / name, config, name, free_port())) for name in NAMES}
        addresses = {name: hub.url.split("/")[2] for name, hub in hubs.items()}
        processes = {
            kind: stack.enter_context(a_balancer(kind, directory / kind, front, addresses))
            for kind, front in fronts.items()
        }
        urls = {kind: f"http://127.0.0.1:{front.port}/mcp" for kind, front in fronts.items()}
        yield Fleet(urls, token, hubs, store, processes)
