"""The gateways that are compared: how each is configured, started and addressed."""

import json
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from hub.wire.mcp import HUBD_VERSION
from tests.bench.install import program_of, version_of
from tests.support.processes import HUBD, own_directories

HERE: Final = Path(__file__).parent
FILTERS: Final = "type.googleapis.com/envoy.extensions.filters."


class Upstream(NamedTuple):
    """A server behind the gateway: started by it, or running at `url`."""

    name: str
    command: Sequence[str]
    url: str = ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])


class Site(NamedTuple):
    """A start of a gateway: its files, its port, the servers behind it, the authority of those that speak TLS."""

    directory: Path
    port: int
    upstreams: Sequence[Upstream]
    authority: Path

    def write(self, name: str, content: object) -> str:
        """Write a file of its configuration, as JSON if it is no text."""
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return str(path)

    def mcp_servers(self, **more: str) -> dict[str, dict[str, Any]]:
        """The object in which most gateways have their servers."""
        return {
            each.name: {"url": each.url, **more} if each.url else {"command": each.command[0], "args": each.command[1:]}
            for each in self.upstreams
        }


class Gateway:
    """A gateway. Unless it says otherwise it has one address for all servers, and their names begin those of tools."""

    name: ClassVar[str]
    separator: ClassVar[str] = "__"
    patience_s: ClassVar[float] = 300

    package: ClassVar[str] = ""
    """Its name in `pins.toml`."""

    @property
    def version(self) -> str:
        return version_of(self.package) if self.package else ""

    def argv(self, site: Site) -> list[str]:
        """Its command; files that it needs are written here."""
        raise NotImplementedError

    def environment(self, site: Site) -> Mapping[str, str]:
        """Variables that it needs besides."""
        return {}

    def configure(self, site: Site) -> None:
        """What it must be told once it listens."""

    def url(self, site: Site, upstream: str) -> str:
        """The address at which a host finds that server."""
        return f"http://127.0.0.1:{site.port}/mcp"

    def tool(self, upstream: str, tool: str) -> str:
        """The name of that server's tool for hosts."""
        return f"{upstream}{self.separator}{tool}"


class Hubd(Gateway):
    """The hub of this checkout."""

    name = "hubd"

    @property
    def version(self) -> str:
        return HUBD_VERSION

    def argv(self, site: Site) -> list[str]:
        lines = []
        for each in site.upstreams:
            lines.append(f"[upstreams.{each.name}]")
            if each.url:
                lines.append(f"url = {json.dumps(each.url)}")
            else:
                lines.append(f"command = {json.dumps(each.command[0])}\nargs = {json.dumps(each.command[1:])}")
        config = site.write("hubd.toml", "\n".join(lines))
        return [str(HUBD), "serve", "--config", config, "--listen", f"127.0.0.1:{site.port}", "--auth", "none"]

    def environment(self, site: Site) -> Mapping[str, str]:
        return {**own_directories(site.directory), "SSL_CERT_FILE": str(site.authority)}


class Relay(Gateway):
    """`relay.py`, the least that can be called a hub."""

    name = "relay_hand"

    def argv(self, site: Site) -> list[str]:
        commands = site.write("relay.json", {each.name: each.command for each in site.upstreams})
        return [sys.executable, str(HERE / "relay.py"), str(site.port), commands]


class Envoy(Gateway):
    """Envoy with its filters `mcp` and `mcp_router` and one worker thread: what a call costs without an interpreter."""

    name = "Envoy"
    package = "envoy"

    def argv(self, site: Site) -> list[str]:
        listener = {
            "name": "mcp",
            "address": _address(site.port),
            "per_connection_buffer_limit_bytes": 32 << 20,
            "filter_chains": [
                {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": _manager(site)}]}
            ],
        }
        clusters = [_cluster(each, site.authority) for each in site.upstreams]
        config = site.write("envoy.json", {"static_resources": {"clusters": clusters, "listeners": [listener]}})
        return [
            str(program_of(self.package, "envoy")),
            "-c",
            config,
            "--concurrency",
            "1",
            "-l",
            "off",
            "--disable-hot-restart",
        ]


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _cluster(upstream: Upstream, authority: Path) -> dict[str, object]:
    many = {"max_connections": 4096, "max_requests": 4096, "max_pending_requests": 4096}
    endpoint = {"endpoint": {"address": _address(upstream.port)}}
    cluster: dict[str, object] = {
        "name": upstream.name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [many]},
        "load_assignment": {"cluster_name": upstream.name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if upstream.url.startswith("https:"):
        type = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        validation = {"validation_context": {"trusted_ca": {"filename": str(authority)}}}
        config = {"@type": type, "common_tls_context": validation}
        cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": config}
    return cluster


def _manager(site: Site) -> dict[str, object]:
    servers = [{"name": each.name, "mcp_cluster": {"cluster": each.name, "path": "/mcp"}} for each in site.upstreams]
    unused = {"match": {"prefix": "/"}, "route": {"cluster": site.upstreams[0].name, "timeout": "0s"}}  # must exist
    mcp = {"@type": f"{FILTERS}http.mcp.v3.Mcp", "max_request_body_size": 10 << 20}
    router = {"@type": f"{FILTERS}http.mcp_router.v3.McpRouter", "servers": servers}
    return {
        "@type": f"{FILTERS}network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mcp",
        "http_filters": [
            {"name": "envoy.filters.http.mcp", "typed_config": mcp},
            {"name": "envoy.filters.http.mcp_router", "typed_config": router},
        ],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [unused]}]},
    }


class FastMcp(Gateway):
    """FastMCP, by `fastmcp_gateway.py`."""

    name = "FastMCP"
    package = "fastmcp"
    separator = "_"

    def argv(self, site: Site) -> list[str]:
        servers = site.write("mcp.json", {"mcpServers": site.mcp_servers(transport="http")})
        # -P: the folder of the script holds modules that are not for it
        return [
            str(program_of(self.package, "python")),
            "-P",
            str(HERE / "fastmcp_gateway.py"),
            str(site.port),
            servers,
        ]

    def environment(self, site: Site) -> Mapping[str, str]:
        return {"FASTMCP_CHECK_FOR_UPDATES": "off"}


class ContextForge(Gateway):
    """ContextForge with SQLite, without authentication, its sessions to servers kept open. HTTP servers only."""

    name = "ContextForge"
    package = "contextforge"
    separator = "-"

    def argv(self, site: Site) -> list[str]:
        program = str(program_of(self.package, "mcpgateway"))
        return [
            program,
            "mcpgateway.main:app",
            "--host",
            "127.0.0.1",
            "--port",
            str(site.port),
            "--log-level",
            "error",
            "--no-access-log",
        ]

    def environment(self, site: Site) -> Mapping[str, str]:
        secret = "only-for-a-comparison-0123456789abcdef"
        off = (
            "AUTH_REQUIRED",
            "MCP_REQUIRE_AUTH",
            "SSRF_PROTECTION_ENABLED",
            "RATE_LIMITING_ENABLED",
            "PLUGINS_ENABLED",
            "MCPGATEWAY_UI_ENABLED",
            "MCPGATEWAY_ADMIN_API_ENABLED",
        )
        return {
            **dict.fromkeys(off, "false"),
            "ALLOW_UNAUTHENTICATED_ADMIN": "true",
            "AUTH_ENCRYPTION_SECRET": secret,
            "CACHE_TYPE": "memory",
            "DATABASE_URL": f"sqlite:///{site.directory}/gateway.db",
            "ENVIRONMENT": "development",
            "HOME": str(site.directory),
            "JWT_SECRET_KEY": secret,
            "LOG_LEVEL": "ERROR",
            "TOOL_RATE_LIMIT": "1000000",
            "USE_STATEFUL_SESSIONS": "true",
        }

    def configure(self, site: Site) -> None:
        for each in site.upstreams:
            body = json.dumps({"name": each.name, "url": each.url, "transport": "STREAMABLEHTTP"}).encode()
            address = f"http://127.0.0.1:{site.port}/gateways"
            request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=self.patience_s).close()

    def url(self, site: Site, upstream: str) -> str:
        return f"http://127.0.0.1:{site.port}/mcp/"

    def tool(self, upstream: str, tool: str) -> str:
        return super().tool(upstream, tool).replace("_", "-")


class McpProxy(Gateway):
    """mcp-proxy: stdio servers over HTTP, each at its own address, under the names it gives its tools."""

    name = "mcp-proxy"
    package = "mcp-proxy"

    def argv(self, site: Site) -> list[str]:
        servers = site.write("mcp.json", {"mcpServers": site.mcp_servers()})
        program = str(program_of(self.package, "mcp-proxy"))
        return [program, "--port", str(site.port), "--log-level", "ERROR", "--named-server-config", servers]

    def url(self, site: Site, upstream: str) -> str:
        return f"http://127.0.0.1:{site.port}/servers/{upstream}/mcp"

    def tool(self, upstream: str, tool: str) -> str:
        return tool
