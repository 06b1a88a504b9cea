"""Opens a session over the transport that the configuration of an upstream asks for."""

from config.settings import UpstreamConfig
from hub.link.budget import Budget
from upstreams.session import COMMON, EraMemory, Session, SessionEvents, SessionTerms


def open_session(
    config: UpstreamConfig,
    name: str,
    events: SessionEvents,
    memory: EraMemory,
    terms: SessionTerms = COMMON,
    budget: Budget | None = None,
) -> Session:
    """An unopened session of the transport that `config` asks for; what it queues and reads is counted in `budget`."""
    if config.command is not None:
        from upstreams.transports.stdio.session import open_stdio

        return open_stdio(config, name, events, memory, terms, budget)
    from upstreams.transports.http.detect import open_http

    return open_http(config, name, events, memory, terms, budget)
