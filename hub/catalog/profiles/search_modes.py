"""Search modes of hosts: whether one is shown tools to find and call the others, in place of all. Pure.

A profile says `on` or `off`, or else `auto`: on for hosts that are known to show their models all tools, where a view
has more than such a host takes. Once on, it goes off only when the view is at or below 80 % of both limits (`OFF_AT`).
What was decided stays until it is decided again, so that servers which come and go change nothing, and is forgotten by
the hub only with its memory.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from config.loading.checks.profiles import OWN_LABEL
from hub.catalog.endpoint_views import View

ON, OFF, AUTO = "on", "off", "auto"

"""The values that a profile may say."""
OFF_AT: Final = 0.8
"""Share of both limits at or below which it goes off."""


class HostLimits(Struct, frozen=True):
    """The most that a host takes which shows its model all tools."""

    tools: int | None = None
    """The most tools; None: any number."""
    tokens: int | None = None
    """About how many tokens of tools; None: any number."""


class SearchModes:
    """The search mode of each host, by its label and what it would be shown.

    `limits_of`: the limits of the host with that label, or None if it is not known to show its model all tools; such a
    host is in search mode only if its profile says `on`. `settings`: what profiles say, by name. `kept`: what
    `remembered` returned in the last run.
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
        return view if view.server or not self.is_on(view, label) else structs.replace(view, search=True)

    def is_on(self, view: View, label: str) -> bool:
        """True if a host with this label, which its profile shows `view`, is in search mode."""
        setting = OFF if label == OWN_LABEL else self._setting(view)
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
        share = OFF_AT if was_on else 1.0
        sizes = ((tools, limits.tools), (tokens, limits.tokens))
        if any(most is not None and size > share * most for size, most in sizes) == was_on:
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
