"""What can be said of an upstream apart from its life: its row in `hubd status`, what it is before it ran. Pure."""

from urllib.parse import urlsplit

from msgspec import Struct

from config.loading.check import is_loopback
from config.schema import UpstreamConfig
from hub.wire.mcp import Freshness, Kind, Snapshot
from upstreams.journal.history import Trouble
from upstreams.session import Session


class Counts(Struct, frozen=True):
    """How much of each kind an upstream offers."""

    tools: int
    prompts: int
    resources: int
    templates: int


class UpstreamStatus(Trouble, frozen=True, kw_only=True):
    """What `hubd status` shows of one upstream."""

    name: str
    state: str
    era: str | None
    version: str | None
    transport: str
    pid: int | None
    counts: Counts
    failures: int
    """Attempts in a row that failed."""
    health: str | None
    """`ok` or `silent`; None: it is not connected, or there is nothing to tell by."""
    silent_s: float | None
    """How long it has left pings unanswered."""
    in_flight: int
    degraded: tuple[str, ...]
    sessions: int
    mode: str | None
    """Who shares them."""
    unattributed: int
    """Questions refused because nobody can tell which host they are for."""


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
