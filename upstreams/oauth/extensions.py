"""Extensions of the protocol that are declared to an upstream because of how the hub signs in there. Pure, and loaded
by every hub."""

from typing import Final

from msgspec import Raw

from config.settings import UpstreamConfig

EXTENSIONS: Final = {
    "client_credentials": "io.modelcontextprotocol/oauth-client-credentials",
    "id_jag": "io.modelcontextprotocol/enterprise-managed-authorization",
}
"""The extensions that are declared to an upstream by its `grant`, and to no other."""
NONE: Final[dict[str, Raw]] = {}


def extensions_of(config: UpstreamConfig) -> dict[str, Raw]:
    """The extensions to declare to an upstream, with their settings. Not to be changed."""
    name = EXTENSIONS.get(config.oauth.grant) if signs_in(config) else None
    return {name: Raw(b"{}")} if name else NONE


def signs_in(config: UpstreamConfig) -> bool:
    """True if the hub may sign in at an upstream: it has a URL, and no `Authorization` is configured."""
    if config.url is None or config.oauth.grant == "none":
        return False
    return not any(name.lower() == "authorization" for name in config.headers)
