"""The authorization response: what a browser may bring back, and what it means (RFC 6749 4.1.2, RFC 9207). Pure.

A response is judged in this order, and a later step is not looked at before the earlier ones: the request is a
navigation of a browser; no parameter twice, none too long; its state (which the caller looks up); the issuer; the
error; the code. Nothing of an error is shown before the issuer is known to be the right one.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from hub.wire.printable import printable

MAX_QUERY_BYTES: Final = 8 << 10
MAX_VALUE_BYTES: Final = 4 << 10
"""Codes of some authorization servers are longer than 2 KB."""
MAX_PARAMETERS: Final = 32
MAX_ERROR: Final = 64
MAX_DESCRIPTION: Final = 200
SHOWN: Final = frozenset({"error", "error_description"})
"""Parameters that are only shown, and made printable for that; in others a control character is a trick."""


class BadResponse(Exception):
    """A response that says nothing: it belongs to no sign-in of this hub, or cannot be read in one way only."""


class RefusedResponse(Exception):
    """A response that ends the sign-in that it belongs to: one sentence for a person. `code`: the `error` in it."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Expected(Struct, frozen=True):
    """The response that a request waits for."""

    issuer: str
    sends_issuer: bool
    """The authorization server promises `iss` with every response."""


def is_navigation(headers: Mapping[str, str]) -> bool:
    """True if a browser says that a person opens this as a page of its own, or if it says nothing of that.

    Not in a frame, not as a picture, not by a script, and not beforehand (Fetch Metadata, `Sec-Purpose`). A browser
    sends no `Origin` then, whoever redirects to here.
    """
    if headers.keys() & {"origin", "sec-purpose", "purpose", "x-moz", "x-purpose"}:
        return False
    return headers.get("sec-fetch-mode", "navigate") == "navigate" and (
        headers.get("sec-fetch-dest", "document") == "document"
    )


def read_query(query: str) -> dict[str, str]:
    """The parameters of a query, each of which is there once.

    Raises:
        BadResponse: one is there twice, is too long, or is no text.
    """
    if len(query) > MAX_QUERY_BYTES or query.count("&") >= MAX_PARAMETERS:
        raise BadResponse("The address is too long")
    found: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        key = _text(name)
        if key in found:
            raise BadResponse("The address has a parameter twice")
        found[key] = _text(value, is_shown=key in SHOWN)
    return found


def _text(part: str, *, is_shown: bool = False) -> str:
    data = unquote_to_bytes(part.replace("+", " "))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadResponse("The address is no text") from None
    is_plain = is_shown or not any(character < " " or character == "\x7f" for character in text)
    if len(data) > MAX_VALUE_BYTES or not is_plain:
        raise BadResponse("The address has a parameter that is too long, or holds a control character")
    return text


def judge(parameters: Mapping[str, str], expected: Expected) -> str:
    """The code in a response to a request that `expected` it.

    Raises:
        RefusedResponse: it has none, or does not come from the authorization server that was asked.
    """
    issuer = parameters.get("iss")
    if issuer is None and expected.sends_issuer:
        raise RefusedResponse(
            f"An answer came that does not say who sent it, though {expected.issuer} always does, so it is not trusted"
        )
    if issuer is not None and issuer != expected.issuer:
        raise RefusedResponse(
            f"An answer came from another authorization server than {expected.issuer}, so it is not trusted"
        )
    error = parameters.get("error")
    if error is not None:
        raise RefusedResponse(_say(expected.issuer, error, parameters.get("error_description", "")), code=error)
    code = parameters.get("code")
    if not code:
        raise RefusedResponse(f"{expected.issuer} sent the browser back without a code")
    return code


def _say(issuer: str, error: str, description: str) -> str:
    shown = printable(error[:MAX_ERROR])
    if error == "access_denied" and not description:
        return f"{issuer} says that access was denied"
    detail = printable(description[:MAX_DESCRIPTION])[:MAX_DESCRIPTION]
    return f"{issuer} refused: {shown[:MAX_ERROR]}{detail and f' ({detail})'}"


def read_pasted(line: str) -> tuple[str, dict[str, str]]:
    """The path and the parameters of an address that a person copied out of a browser.

    Raises:
        BadResponse: it is no such address; the text says what is.
    """
    address = line.strip().strip("<>\"'")
    wanted = "Paste the whole address of the page that did not load; it begins with http and holds code= and state="
    if len(address) > MAX_QUERY_BYTES + 1024:
        raise BadResponse(f"That is too long. {wanted}")
    try:
        parts = urlsplit(address)
    except ValueError:
        raise BadResponse(wanted) from None
    if parts.scheme not in ("http", "https") or not parts.netloc or not address.isprintable():
        raise BadResponse(wanted)
    parameters = read_query(parts.query)
    if "state" not in parameters:
        raise BadResponse(wanted)
    return parts.path, parameters
