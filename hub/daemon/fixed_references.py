"""References to secrets and credentials among arguments that profiles fix: read whenever the configuration is. Blocks.

A secret is read once for each of its versions, so that a keyring which is locked later costs nothing that worked. At
the start the hub waits but shortly for one that is locked; at a reload, which is a thread's work, a person has time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import structs

from config.errors import Diagnostic
from config.fixed_values import references_of, with_values
from config.loading.assemble import Loaded
from config.loading.check_profiles import warnings_of_unread
from config.references import Reference
from config.system_keyring import PATIENCE_S
from upstreams.resolution.sources import read_each

START_PATIENCE_S: Final = 5.0
MORE: Final = "Then run `hubd reload`"

ReadEach = Callable[
    [Iterable[Reference], Mapping[str, str], float], tuple[Mapping[Reference, str], Mapping[Reference, str]]
]
"""`read_each`, or a test's own."""


class FixedReferences:
    """The values that were read last, for the next reading. Used by one thread at a time."""

    def __init__(self, read: ReadEach = read_each) -> None:
        self._read = read
        self._kept: dict[Reference, str] = {}
        self._patience_s = START_PATIENCE_S

    def __repr__(self) -> str:
        return f"<FixedReferences: {len(self._kept)} read>"

    def fill(self, loaded: Loaded) -> Loaded:
        """What was loaded, with the values of these references in their places. An argument without a value has its
        tool left out, and there is a warning."""
        patience_s, self._patience_s = self._patience_s, PATIENCE_S
        profiles = loaded.config.profiles
        references = references_of(profiles)
        kept = {each: self._kept[each] for each in references if each in self._kept}
        wanted = [each for each in references if each not in kept]
        found, lacking = self._read(wanted, loaded.environ, patience_s) if wanted else ({}, {})
        values = {**kept, **found}
        self._kept = {each: value for each, value in values.items() if each.kind == "secret"}
        if not references:
            return loaded
        filled = with_values(profiles, values, {each: f"{why}. {MORE}" for each, why in lacking.items()})
        told = {warning.keys for warning in loaded.warnings}
        warnings = [
            Diagnostic(loaded.files[0], _line(loaded, problem.keys), problem.keys, str(problem))
            for problem in warnings_of_unread(filled)
            if problem.keys not in told
        ]
        return structs.replace(
            loaded,
            config=structs.replace(loaded.config, profiles=filled),
            warnings=(*loaded.warnings, *warnings),
        )


def _line(loaded: Loaded, keys: tuple[str, ...]) -> int | None:
    origin = loaded.origins.get(keys)
    return None if origin is None else origin.line
