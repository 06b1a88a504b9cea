"""Reading of a metadata document from a place: it is there, it is not there, or nobody can say now."""

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from upstreams.fetch.model import Allowed, Fetched, FetchFailed
from upstreams.oauth.model import OAuthUnavailable

_SECONDS: Final = re.compile(r"[0-9]{1,9}")
MAX_RETRY_AFTER_S: Final = 60.0


class Fetching(Protocol):
    """The part that is needed of `upstreams.fetch.fetcher.Fetcher`."""

    async def get(self, url: str, allowed: Allowed, *, headers: Mapping[str, str] | None = ...) -> Fetched: ...

    async def post_json(
        self, url: str, body: object, allowed: Allowed, *, headers: Mapping[str, str] | None = ...
    ) -> Fetched: ...


async def read_document(
    fetch: Fetching, place: str, allowed: Allowed, headers: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """The JSON object at `place`; None: there is none, so another place may have it.

    Raises:
        FetchFailed: `place` may not be asked (`refused`).
        OAuthUnavailable: it cannot be asked now.
    """
    try:
        answer = await fetch.get(place, allowed, headers=headers)
    except FetchFailed as failed:
        if failed.refused:
            raise
        if failed.too_large:
            return None  # some page, which no metadata are
        raise OAuthUnavailable(sentence(failed.text)) from None
    check_available(answer, place)
    return answer.json_object() if answer.status == 200 else None


def check_available(answer: Fetched, place: str, *, sent: bool = False) -> None:
    """Raise `OAuthUnavailable` if a server says that it cannot answer now."""
    if answer.status == 429 or answer.status >= 500:
        origin = "/".join(place.split("/")[:3])
        raise OAuthUnavailable(
            f"{origin} answers {answer.status} now; trying again later may help.",
            retry_after_s=retry_after_s(answer.headers),
            sent=sent,
        )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds after which a server wants to be asked again, a minute at most; None: it does not say."""
    value = headers.get("retry-after", "")
    return min(float(value), MAX_RETRY_AFTER_S) if _SECONDS.fullmatch(value) else None


def sentence(text: str) -> str:
    """A text with a full stop."""
    return text if text.endswith(".") else text + "."
