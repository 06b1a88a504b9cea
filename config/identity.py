"""What makes one upstream the same as another: which settings, and a digest of them. Pure."""

from hashlib import sha256
from typing import Final

import msgspec

from config.schema import UpstreamConfig, reveal

IDENTITY: Final = (
    "command", "args", "env", "cwd", "url", "headers", "transport", "era", "session_mode", "across_principals",
    "client_features", "roots",
)  # fmt: skip
"""The settings that say what server an upstream is, and what it is asked with."""


def config_key(config: UpstreamConfig) -> str:
    """What identifies an upstream to the memory: what is started or reached, not what it is called.

    Of `env` and `headers` only the names count, so the key tells nothing of their values. `args` and `url` do count:
    whoever may read the memory (0600) can tell whether a guess at them is right, and no more. That is one more reason
    to keep secrets out of both.
    """
    parts = (config.command, config.args, config.cwd, config.url, config.transport, config.era)
    names = (sorted(config.env), sorted(config.headers))
    return sha256(msgspec.json.encode((parts, names))).hexdigest()[:32]


def source_of(config: UpstreamConfig) -> str:
    """A name for what server an upstream is and what it is asked with (K-13). For hubs only: secrets are in it."""
    said = {name: getattr(config, name) for name in IDENTITY}
    text = msgspec.json.encode(said, enc_hook=reveal, order="deterministic")
    return sha256(text).hexdigest()[:32]
