"""Refusals of requests whose sender is not let in. Pure.

All of one kind have one body: it tells nobody which part of a credential was wrong.
"""

from typing import Final

from hub.net.http_request import EarlyReply


def _body(text: str) -> bytes:
    return b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"%b"}}' % text.encode()


def _ask_for_token(what: str, more: str = "") -> EarlyReply:
    advice = "run `hubd token` and send what it prints as `Authorization: Bearer TOKEN`"
    text = f"{what}: {advice}. Only /livez and / answer without"
    return EarlyReply(401, _body(text), (("WWW-Authenticate", f'Bearer realm="hubd"{more}'),))


FORBIDDEN: Final = EarlyReply(
    403,
    _body(
        "Host or Origin refused: this hub answers to its own addresses only. Add others to allowed_hosts or "
        "allowed_origins in its configuration"
    ),
)
SIGN_IN: Final = _body(
    "This hub asks for a sign-in: its metadata name the authorization server. Programs of its owner send a token of "
    "`hubd token` as `Authorization: Bearer TOKEN`"
)
ANYBODY: Final = EarlyReply(0, b"")
"""No reply: the request is let in, whoever makes it; it has an identity only if its sender showed one."""
NO_TOKEN: Final = _ask_for_token("This hub asks for a token")
WRONG_TOKEN: Final = _ask_for_token(
    "The token that was sent is not one of this hub, or has ended", ', error="invalid_token"'
)
TOKEN_IN_QUERY: Final = EarlyReply(400, _body("A token is sent as `Authorization: Bearer TOKEN`, never in the address"))
NOT_THE_PROXY: Final = EarlyReply(
    400, _body("The header field that names a person counts once, from the trusted proxy alone, and is never empty")
)
NOT_NOW: Final = EarlyReply(
    503,
    _body("The authorization server cannot be asked now whether this token counts; try again later"),
    (("Retry-After", "5"),),
)


def missing_scopes(scopes: str, metadata_url: str) -> EarlyReply:
    """403: the token counts, and lacks some of `scopes` (RFC 6750 3.1)."""
    challenge = f'Bearer realm="hubd", error="insufficient_scope", scope="{scopes}", resource_metadata="{metadata_url}"'
    return EarlyReply(403, _body("The token lacks scopes that this hub needs"), (("WWW-Authenticate", challenge),))


def sign_in(scopes: str, metadata_url: str, *, with_token: bool) -> EarlyReply:
    """401 that names the metadata of this hub (RFC 9728 5.1). `with_token`: one was sent, and does not count."""
    parts = ['Bearer realm="hubd"', f'resource_metadata="{metadata_url}"']
    if scopes:
        parts.append(f'scope="{scopes}"')
    if with_token:
        parts.append('error="invalid_token"')
    return EarlyReply(401, SIGN_IN, (("WWW-Authenticate", ", ".join(parts)),))
