"""Naming rules: what a configuration says of how upstreams and their tools are shown. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from config.name_globs import ALL
from config.tables.profiles import Profile
from hub.catalog.names import name_id
from hub.catalog.sign_in_tool import SignInTool


class UpstreamRule(Struct, frozen=True):
    """Naming rule of one upstream, from the configuration."""

    name: str
    prefix: str | None = None
    """The server id in visible names. None: `name`; "": names and URIs appear as they are."""
    aliases: tuple[str, ...] = ()
    """Former names, by which hosts may still ask."""
    apps: bool = False
    """True if its user interfaces are shown on the common endpoint."""
    tools: tuple[str, ...] = ALL
    """Globs over its own names of tools; others do not exist for hosts."""
    rename: tuple[tuple[str, str], ...] = ()
    """Own names of tools, and those that hosts see in their place behind the prefix."""
    describe: tuple[tuple[str, str], ...] = ()
    """Own names of tools, and their descriptions in place of the upstream's."""
    trusted: bool = False
    """Its tools are believed when they say that they only read."""
    sign_in: SignInTool = SignInTool.NONE
    """The tool that has a person sign in there."""

    def sid(self, budget: int) -> str:
        """The server id in visible names of so many characters."""
        return name_id(self.prefix or self.name, budget)


class Rules(Struct, frozen=True):
    """Naming rules of a configuration, upstreams in its order."""

    upstreams: tuple[UpstreamRule, ...]
    left_out: tuple[UpstreamRule, ...] = ()
    """Those of upstreams that cannot be started yet, since a reference of theirs leads nowhere."""
    budget: int = 50
    """Characters of a visible name."""
    page_size: int = 0
    """Entries per page of a list; 0: all in one page."""
    profiles: Mapping[str, Profile] = {}
    """The part of all servers that some hosts are shown, by the name of the profile."""
