"""What is counted of the cache, by upstream and by why something was dropped. Pure."""

from collections import Counter
from collections.abc import KeysView

from cache.entry import Cause
from cache.facts import Counts


class Tally:
    """Since the hub started."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._gone = Counts()
        """Of upstreams that are no more."""
        self._dropped: Counter[Cause] = Counter()

    def __repr__(self) -> str:
        return f"<Tally of {', '.join(self._counts) or 'nothing'}>"

    def of(self, name: str) -> Counts:
        """The counts of an upstream, to be changed."""
        found = self._counts.get(name)
        if found is None:
            found = self._counts[name] = Counts()
        return found

    @property
    def names(self) -> KeysView[str]:
        """The upstreams of which something was counted."""
        return self._counts.keys()

    def forget(self, name: str) -> None:
        """There is no such upstream any more. What happened has happened."""
        counts = self._counts.pop(name, None)
        if counts is not None:
            self._gone = _sum([self._gone, counts])

    def dropped(self, cause: Cause, entries: int) -> None:
        """So many were dropped."""
        self._dropped[cause] += entries

    @property
    def total(self) -> Counts:
        """Of all upstreams, those that are no more among them."""
        return _sum([self._gone, *self._counts.values()])

    @property
    def invalidations(self) -> dict[str, int]:
        """How many entries were dropped, by `Cause.value`."""
        return {cause.value: self._dropped[cause] for cause in Cause}


def _sum(all_counts: list[Counts]) -> Counts:
    total = Counts()
    for counts in all_counts:
        for field in Counts.__struct_fields__:
            setattr(total, field, getattr(total, field) + getattr(counts, field))
    return total
