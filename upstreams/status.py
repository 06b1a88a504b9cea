"""What can be said of an upstream apart from its life: its row in `hubd status`, what it is before it ran. Pure."""

from urllib.parse import urlsplit

from config.loading.check import is_loopback
from config.schema import UpstreamConfig
from hub.wire.mcp import Freshness, Kind, Snapshot
from upstreams.session import Session


def health(session: Session | None, silent_s: float | None) -> str | None:
    """What can be told from pings, or from its process: informational, nothing is ever ended for it (F-P-28)."""
    if session is None:
        return None
    if silent_s is not None:
        return "silent"
    return "ok" if session.pid is not None or session.is_pinged else None


def empty_snapshot(name: str, local: bool) -> Snapshot:
    """What is known of an upstream that was never connected."""
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
    """Whether an upstream's `file` URIs mean files of this machine (naming.md 5.2)."""
    if config.locality != "auto":
        return config.locality == "local"
    if config.url is None:
        return True
    return is_loopback(urlsplit(config.url).hostname or "")


def configured_transport(config: UpstreamConfig) -> str:
    """The transport, as far as the configuration alone says."""
    if config.command is not None:
        return "stdio"
    return "sse" if config.transport == "sse" else "http"
