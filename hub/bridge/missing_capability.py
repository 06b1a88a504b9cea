"""The error -32021 for a modern host whose legacy server asked for what the host had not declared, and then failed.

Such a server learns only of its question's refusal, and whether it can do without is its own affair: a result that it
comes up with passes. If it fails, the capability is what the host lacks, which only this error says.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Raw

from hub.wire.jsonrpc import Failure, Reply, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import MISSING_CAPABILITY, URL_ELICITATION_REQUIRED

MAX_WORDS: Final = 300
"""Characters of the server's own words in the message; all of them are in `data`."""


def explain(reply: Reply, lacking: Mapping[str, Mapping[str, Any]], upstream: str) -> Reply:
    """The error to send in place of `reply`, if that is a failure; other replies are returned unchanged.

    `lacking`: the capabilities that were asked for in vain, as `requiredCapabilities` has them.
    """
    if isinstance(reply, Failure):
        if reply.code == URL_ELICITATION_REQUIRED:
            return reply  # it says itself what it needs
        words = reply.message
        theirs: dict[str, Any] = {"server": upstream, "code": reply.code, "message": reply.message}
        if reply.data is not UNSET:
            theirs["data"] = reply.data
    else:
        members = peek_object(reply.value)
        if members.get("isError") != _TRUE:
            return reply
        content = members.get("content", Raw(b"[]"))
        words = _text_of(content)
        theirs = {"server": upstream, "content": content}
    needed = ", ".join(_names(lacking))
    text = f"{upstream} failed after asking for what this host did not declare ({needed}): {words}"
    data = {"requiredCapabilities": lacking, "upstream": theirs}
    return Failure(MISSING_CAPABILITY, text.removesuffix(": "), raw(data))


def _names(lacking: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name}.{part}" if part else name for name, parts in lacking.items() for part in parts or ("",)]


def _text_of(content: Raw) -> str:
    """The first text of a result, cut."""
    texts = (peek_str(peek_object(part).get("text")) for part in peek_array(content))
    text = next(filter(None, texts), "")
    return text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}..."


_TRUE: Final = Raw(b"true")
