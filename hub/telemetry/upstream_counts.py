"""Upstream counts: what is counted of the sessions with upstreams and of the questions that these ask. Pure."""

from collections import Counter

from hub.telemetry.tally import Histogram


class UpstreamCounts:
    """Counts since the hub started, of all upstreams by name. Satisfies `upstreams.session_contract.SessionWatch`."""

    def __init__(self) -> None:
        self.connects: Counter[tuple[str, str]] = Counter()
        """By upstream: sessions that were opened (`ok`), and those that could not be (`error`)."""
        self.ends: Counter[tuple[str, str]] = Counter()
        """Sessions that are over, by upstream and cause."""
        self.sessions: dict[tuple[str, str], Histogram] = {}
        """Lengths of sessions, by upstream and transport."""
        self.questions: Counter[tuple[str, str, str]] = Counter()
        """By upstream, method and outcome."""

    def opened(self, upstream: str, transport: str) -> None:
        self.connects[upstream, "ok"] += 1
        self.connects[upstream, "error"] += 0  # so that a first failure is seen to be one more than before
        self.sessions.setdefault((upstream, transport), Histogram())  # alerts go by transports from the beginning

    def not_opened(self, upstream: str) -> None:
        self.connects[upstream, "error"] += 1
        self.connects[upstream, "ok"] += 0

    def ended(self, upstream: str, transport: str, cause: str, length_s: float) -> None:
        self.ends[upstream, cause] += 1
        self.sessions[upstream, transport].observe(length_s)

    def answered(self, upstream: str, method: str, outcome: str) -> None:
        self.questions[upstream, method, outcome] += 1
