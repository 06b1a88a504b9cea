"""Labels in the `hosts` of profiles that are probably mistyped, which only the user can settle. Pure.

Labels are free, so one that is like no known host is not doubted, and neither is one that a host has in fact.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from config.errors import quote_toml
from config.hosts.facts import all_hosts
from config.tables import Profile

LIKE: Final = 0.8
MAX_LABELS: Final = 64
"""Labels of a profile that are compared."""
MAX_CHARS: Final = 64


def find_mistyped(profiles: Mapping[str, Profile], in_use: Collection[str]) -> Iterator[tuple[str, str]]:
    """Profiles by name, each with a sentence on one of its labels. `in_use`: labels that hosts have."""
    known = list(all_hosts())
    for name, profile in profiles.items():
        for label in profile.hosts[:MAX_LABELS]:
            if label in known or label in in_use or len(label) > MAX_CHARS:
                continue
            near = get_close_matches(label, known, 1, LIKE)
            if near and not label.startswith(near[0]):  # as in `cursor-work`, which is meant
                text = f"no host that hubd knows has the label {quote_toml(label)}"
                yield name, f'{text}; did you mean "{near[0]}"?'
