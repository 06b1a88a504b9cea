"""Which reads come to the same: of one server, and depending on nothing but the URI (K-2, K-13). Pure."""

from hashlib import sha256
from typing import Final

import msgspec

from config.schema import Secret, UpstreamConfig
from hub.link.exchange import Caller, Operation
from hub.wire.abilities import capabilities_for_upstream
from hub.wire.jsonrpc import encode
from hub.wire.mcp import RESOURCES_READ

IDENTITY: Final = (
    "command", "args", "env", "cwd", "url", "headers", "transport", "era", "session_mode", "across_principals",
    "client_features", "roots",
)  # fmt: skip
"""The settings that say what server an upstream is, and what it is asked with."""
HARMLESS: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of a request's `_meta` that no result depends on."""


def is_plain(operation: Operation) -> bool:
    """Whether it is a read on whose URI alone the result depends (K-2, K-5)."""
    return (
        operation.method == RESOURCES_READ and operation.params.keys() == {"uri"} and operation.meta.keys() <= HARMLESS
    )


def abilities_of(caller: Caller, config: UpstreamConfig) -> str:
    """What a request to a modern upstream says that the host of `caller` can do, as `Subject.abilities`."""
    told = capabilities_for_upstream(
        caller.capabilities, client_features=config.client_features, absorbs_tasks=config.tasks == "absorb"
    )
    return encode(told).decode()


def source_of(config: UpstreamConfig) -> str:
    """A name for what server an upstream is and what it is asked with (K-13). For hubs only: secrets are in it."""
    said = {name: getattr(config, name) for name in IDENTITY}
    text = msgspec.json.encode(said, enc_hook=_reveal, order="deterministic")
    return sha256(text).hexdigest()[:32]


def _reveal(value: object) -> object:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError
