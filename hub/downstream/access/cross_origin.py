"""Pages of other origins (CORS, Fetch 3.2): those of `allowed_origins` may read answers, and ask beforehand. Pure.

No cookies are used, so no credentials mode is offered.
"""

from typing import Final

from hub.net.http_message import EarlyReply

Fields = tuple[tuple[str, str], ...]
EXPOSED: Final = "WWW-Authenticate, Mcp-Session-Id"


def fields_for(origin: str) -> Fields:
    """Header fields of each answer to a page of `origin`, which must be an allowed one."""
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", EXPOSED),
        ("Vary", "Origin"),
    )


PREFLIGHT: Final = EarlyReply(
    204,
    b"",
    (
        ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
        ("Access-Control-Allow-Headers", "Authorization, *"),
        ("Access-Control-Max-Age", "600"),
    ),
)
