"""Terms of guarded requests, their answers, and why there was none. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from upstreams.fetch.strict_json import read_json_object

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as texts; raises OSError if there are none."""


def retry_after_s(headers: Mapping[str, str], longest_s: float, now: float | None = None) -> float | None:
    """The seconds of `Retry-After` (RFC 9110 10.2.3), within 0 and `longest_s`; None: it does not say. A date is
    measured against the wall time `now`, by default the server's own `Date`."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), longest_s)
    try:
        began = parsedate_to_datetime(headers.get("date", "")).timestamp() if now is None else now
        return min(max(parsedate_to_datetime(value).timestamp() - began, 0.0), longest_s)
    except (ValueError, TypeError, OverflowError):
        return None


class Allowed(Struct, frozen=True):
    """Who may be asked beside public addresses. Link-local addresses and listeners of the hub never are."""

    private_hosts: frozenset[str] = frozenset()
    """Hosts that the operator wrote in a configuration, in lower case: they may have private addresses."""
    loopback_http: bool = False
    """The upstream itself is on loopback: others may be there too, and `http://` is allowed to them."""


class Fetched(Struct, frozen=True):
    """One answer, whole."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; several values of one name are joined by ", "."""
    body: bytes

    def __repr__(self) -> str:
        return f"<Fetched {self.status}, {len(self.body)} bytes>"

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object, whatever its type is said to be; None if it is none, or an ambiguous one."""
        return read_json_object(self.body)


class FetchFailed(Exception):
    """The reason why there is no answer, in words for a person: no part of an answer, no path or query, no secret.

    `refused`: the guard forbids this request, now and later. `sent`: the request may have arrived.
    `too_large`: there is an answer, which is larger than one may be.
    """

    def __init__(self, text: str, *, refused: bool = False, sent: bool = False, too_large: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.refused = refused
        self.sent = sent
        self.too_large = too_large
