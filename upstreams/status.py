"""Status of an upstream from pings and configuration, and its snapshot before it ever ran. Pure."""

from urllib.parse import urlsplit

from config.loading.check import is_loopback
from config.settings import UpstreamConfig
from hub.wire.mcp import Freshness, Kind, Snapshot
from upstreams.session import Session


def health(session: Session | None, silent_s: float | None) -> str | None:
    """Health by pings, or by the process: informational, nothing is ever stopped for it."""
    if session is None:
        return None
    if silent_s is not None:
        return "silent"
    return "ok" if session.pid is not None or session.is_pinged else None


def empty_snapshot(name: str, local: bool) -> Snapshot:
    """The snapshot of an upstream that was never connected."""
    return Snapshot(
        upstream=name,
        version="",
        capabilities={},
        server_info={},
        instructions="",
        lists=dict.fromkeys(Kind, ()),
        freshness=dict.fromkeys(Kind, Freshness()),
        local=local,
    )


def is_local(config: UpstreamConfig) -> bool:
    """True if an upstream's `file` URIs mean files of this machine."""
    if config.locality != "auto":
        return config.locality == "local"
    if config.url is None:
        return True
    return is_loopback(urlsplit(config.url).hostname or "")


def transport_of(config: UpstreamConfig) -> str:
    """The transport that the configuration names; the server may turn out to speak another."""
    if config.command is not None:
        return "stdio"
    return "sse" if config.transport == "sse" else "http"
