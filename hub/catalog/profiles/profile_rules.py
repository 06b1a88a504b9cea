"""The rules of a profile, read once for all names that they are asked about. Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from config.name_globs import EachGlob, NameChoice, may_choose
from config.tables import Profile, ResolvedOverride, ToolOverride
from hub.catalog.view_name import home_of

UNCHANGED: Final = ToolOverride()


class ProfileRules:
    """The choice that a profile makes of servers and of visible names, as they are before renaming. Never changes."""

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self.profile = profile
        self._servers = frozenset(profile.servers)
        self._tools = NameChoice(profile.tools)
        self._always = NameChoice(profile.always)
        self._has_always = bool(profile.always)
        self.entries = EachGlob((*profile.tools, *profile.always), (*profile.rename, *profile.override))
        """Everything by which it means tools."""

    def shows_server(self, running: str) -> bool:
        """True if the server that runs as `running` is shown; of a project's server its own name counts."""
        return not self._servers or home_of(running)[0] in self._servers

    def shows_tool(self, names: Collection[str]) -> bool:
        """True if a tool is shown that is known by `names`: what any of them is taken away by holds for the tool."""
        return self._tools.chooses(names)

    def may_show_tools_of(self, starts: Iterable[str]) -> bool:
        """True if a tool may be shown whose name begins with one of `starts`, as far as globs can say."""
        return any(may_choose(self.profile.tools, start) for start in starts)

    def is_always(self, names: Collection[str]) -> bool:
        """True if that tool is shown in search mode, too."""
        return self._has_always and self._always.chooses(names)

    def override(self, names: Collection[str]) -> ToolOverride:
        """The other texts and the fixed arguments of that tool: of all its names, the first counts for more."""
        known = self.profile.override
        found = [known[name] for name in names if name in known] if known else []
        if len(found) < 2:
            return found[0] if found else UNCHANGED
        fixed = {argument: value for each in reversed(found) for argument, value in each.fix.items()}
        description = next((each.description for each in found if each.description), "")
        unread = {name: why for one in found if isinstance(one, ResolvedOverride) for name, why in one.unread.items()}
        return ResolvedOverride(description=description, fix=fixed, unread=unread)

    def new_name(self, names: Collection[str]) -> str | None:
        """The name that it is given; None: it keeps its own."""
        return next((new for name in names if (new := self.profile.rename.get(name)) is not None), None)


MAX_REASON: Final = 300
"""Characters of the reason why an argument has no value."""


def unread_of(override: ToolOverride) -> list[str]:
    """Clauses about the fixed arguments of a tool that have no value now."""
    if not isinstance(override, ResolvedOverride):
        return []
    return [f'"{argument[:60]}": {why[:MAX_REASON]}' for argument, why in override.unread.items()]
