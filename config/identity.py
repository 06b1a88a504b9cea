"""Digests of what makes two upstreams the same: the settings that are declared with an `identity`. Pure."""

import secrets
from hashlib import sha256
from typing import Any, Final

import msgspec

from config.references import references_of, spell_references
from config.setting import declarations, reveal
from config.settings import UpstreamConfig

_THIS_RUN: Final = secrets.token_bytes(16)


def config_key(config: UpstreamConfig) -> str:
    """The digest under which a server is remembered: what is started or reached, not what it is called.

    Of `env` and `headers` only the names count, so the key tells nothing of their values. `args` and `url` do count:
    whoever may read the memory (0600) can tell whether a guess at them is right, and no more. That is one more reason
    to keep secrets out of both.
    """
    values, names = [], {}
    for name, declared in declarations(UpstreamConfig).items():
        if declared.setting.identity == "server":
            value = getattr(config, declared.attribute)
            if declared.holds_secrets:
                names[name] = sorted(value)
            else:
                values.append(_show(value))
    return sha256(msgspec.json.encode((values, [names[name] for name in sorted(names)]))).hexdigest()[:32]


def _show(value: Any) -> Any:
    """A value as files write it: a server remains the same when a secret that it refers to changes."""
    if isinstance(value, str):
        return spell_references(value)
    return tuple(map(_show, value)) if isinstance(value, tuple) else value


def source_of(config: UpstreamConfig) -> str:
    """The digest under which hubs share what they read from a server: which it is, and how it is asked. It covers
    secrets, so it is for stores of hubs only.

    What a reference stands for is not known here. A changed secret has another version, which no other hub has; of a
    credential or a command nobody knows what it was in another run, so nothing is shared with that.
    """
    settings = declarations(UpstreamConfig).items()
    values = {
        name: getattr(config, declared.attribute)
        for name, declared in settings
        if declared.setting.identity is not None
    }
    text = msgspec.json.encode(values, enc_hook=reveal, order="deterministic")
    apart = _THIS_RUN if any(each.kind != "secret" for each in references_of(config)) else b""
    return sha256(text + apart).hexdigest()[:32]
