"""Search mode: which hosts are shown tools to find and call the others, in place of all. Pure.

A profile says `on` or `off`, or else `auto`: on for hosts that are known to show their models all tools, where a view
has more than such a host takes. What was decided stays until it is decided again, so that servers which come and go
change nothing, and is forgotten by the hub only with its memory; between on and off lies a fifth of each limit.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from config.loading.check_profiles import OWN_LABEL
from hub.catalog.view import View

ON, OFF, AUTO = "on", "off", "auto"
"""The values that a profile may say."""
OFF_AT: Final = 0.8
"""Share of both limits below which it is off again."""


class HostLimits(Struct, frozen=True):
    """The most that a host takes which shows its model all tools."""

    tools: int | None = None
    """The most tools; None: any number."""
    tokens: int | None = None
    """About how many tokens of tools; None: any number."""

    def are_passed(self, tools: int, tokens: int, share: float = 1.0) -> bool:
        """True if there are more tools, or tokens of them, than this share of the limits."""
        return (self.tools is not None and tools > share * self.tools) or (
            self.tokens is not None and tokens > share * self.tokens
        )


class SearchModes:
    """The search mode of each host, by its label and what it would be shown.

    `limits_of`: those of a host with some label; None, unless it is known to show its model all tools: then it is never
    shown search mode, but by its profile. `settings`: what profiles say, by name. `kept`: what was decided before, of
    `remembered`.
    """

    def __init__(
        self,
        limits_of: Callable[[str], HostLimits | None] = lambda label: None,
        settings: Mapping[str, str] | None = None,
        kept: Iterable[str] = (),
    ) -> None:
        self._limits_of = limits_of
        self._settings = settings or {}
        self._on = set(kept)

    @property
    def in_use(self) -> bool:
        """True if some host may be shown search mode."""
        return bool(self._on) or ON in self._settings.values()

    @property
    def remembered(self) -> list[str]:
        """The decisions, for `kept` of the next run."""
        return sorted(self._on)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Go by what profiles say now."""
        self._settings = settings

    def view_for(self, view: View, label: str) -> View:
        """The view of a host with this label, which its profile shows `view`."""
        if view.server or not self.is_on(view, label):
            return view
        return structs.replace(view, search=True)

    def is_on(self, view: View, label: str) -> bool:
        """True if a host with this label, which its profile shows `view`, is in search mode."""
        if label == OWN_LABEL:
            return False
        setting = self._setting(view)
        return setting == ON or (setting == AUTO and _key(view, label) in self._on)

    def is_open(self, view: View, label: str) -> bool:
        """True if it is to be decided, by `decide`."""
        return self._setting(view) == AUTO and not view.server and self._limits_of(label) is not None

    def decide(self, view: View, label: str, tools: int, tokens: int) -> str | None:
        """Decide anew, given what such a host would be shown; a sentence for the operator, if something changes."""
        limits, key = self._limits_of(label), _key(view, label)
        if limits is None or not self.is_open(view, label):
            return None
        was_on = key in self._on
        if limits.are_passed(tools, tokens, OFF_AT if was_on else 1.0) == was_on:
            return None
        if was_on:
            self._on.discard(key)
            return f"search mode is off for {label}: it is shown all {tools} tools again"
        self._on.add(key)
        most = [f"{limits.tools} tools"] if limits.tools is not None else []
        most += [f"~{limits.tokens} tokens of them"] if limits.tokens is not None else []
        return (
            f"search mode is on for {label}: it finds tools by searching, since there are {tools} (~{tokens} tokens)"
            f' and it takes {" or ".join(most)}; search = "off" in its profile shows it all'
        )

    def _setting(self, view: View) -> str:
        return self._settings.get(view.profile, AUTO)


def _key(view: View, label: str) -> str:
    return f"{label} {view.path}"
