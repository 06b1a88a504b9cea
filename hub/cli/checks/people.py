"""Checks of who may come: several people share what the hub is signed in at."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from config import directories
from config.settings import HubConfig
from hub.cli.checks.evidence import Examined, Finding, listed
from hub.downstream.access.host_tokens import TokensUnreadable, read_tokens
from hub.link.interface import OWNER


def several_principals(examined: Examined) -> Iterator[Finding]:
    """Others than the owner who may come over HTTP: there are no rules yet of what each may use."""
    others = _others(examined.config)
    if others:
        yield Finding(
            "principals",
            "note",
            f"beside the hub's owner {listed(others)} may come over HTTP",
            "whoever is let in may use every server, with what the hub is signed in at: there are no rules yet",
            "let in only whom you would give all of it; `required_scopes`, and `clients` of an issuer, narrow that",
        )


def _others(config: HubConfig) -> list[str]:
    """Principals, or groups of them, other than the owner."""
    if config.auth == "none":
        return []
    made = {}
    with suppress(TokensUnreadable):
        made = read_tokens(Path(directories.state_dir(), "tokens.json"))
    named = [kept.principal for kept in made.values()] + [token.principal for token in config.access.tokens]
    found = [name for name in named if name not in ("", OWNER)]
    if config.auth == "oauth":
        found += [f"those whom {issuer.issuer} signs in" for issuer in config.access.issuers]
    if config.auth == "proxy":
        found.append(f"those whom the proxy names in {config.access.proxy.header}")
    return list(dict.fromkeys(found))
