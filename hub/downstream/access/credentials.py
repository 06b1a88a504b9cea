"""Credentials beside the hub's own token, judged in their order: what a trusted proxy says, tokens of hosts, tokens of
authorization servers.
"""

from typing import Final, Protocol

from hub.downstream.access.host_tokens import PREFIX
from hub.downstream.access.named_tokens import NamedTokens
from hub.downstream.access.refusals import NO_TOKEN, TOKEN_IN_QUERY, WRONG_TOKEN
from hub.link.interface import Identity
from hub.net.http_message import EarlyReply, HttpRequest, Undecided

SCHEME: Final = "bearer"


class Issued(Protocol):
    """Tokens of authorization servers (`issued_tokens.IssuedTokens`)."""

    def check(self, request: HttpRequest, token: str) -> Identity | EarlyReply | Undecided: ...

    def refusal(self, request: HttpRequest, *, with_token: bool) -> EarlyReply: ...


class Proxied(Protocol):
    """The words of a trusted proxy (`trusted_proxy.ProxiedPersons`)."""

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided | None: ...


class Credentials:
    """Everything by which somebody is let in who does not show the hub's own token."""

    def __init__(self, named: NamedTokens, issued: Issued | None = None, proxied: Proxied | None = None) -> None:
        self._named = named
        self._issued = issued
        self._proxied = proxied

    def __repr__(self) -> str:
        return f"<Credentials {self._named!r}>"

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided:
        """The identity of the sender, or why there is none yet, or none at all."""
        if self._proxied is not None and (found := self._proxied.check(request)) is not None:
            return found
        issued = self._issued
        if issued is not None and "access_token=" in request.query:
            return TOKEN_IN_QUERY
        token = _token_in(request.headers.get("authorization", ""))
        if not token:
            return NO_TOKEN if issued is None else issued.refusal(request, with_token=False)
        named = self._named.find(token)
        if named is not None:
            request.lease = named.lease
            return named.identity
        if issued is None:
            return WRONG_TOKEN
        if token.startswith(PREFIX):  # one of ours that is no more: nobody else is shown it
            return issued.refusal(request, with_token=True)
        return issued.check(request, token)


def _token_in(authorization: str) -> str:
    """The token in `Authorization`; "": there is none, or it is not visible ASCII: of all else a header field can only
    hold spaces and tabs. A pattern would take longer than all the rest, for a token of a thousand characters."""
    scheme, _, token = authorization.partition(" ")
    token = token.lstrip(" ")
    if scheme.lower() != SCHEME or " " in token or "\t" in token or not token.isascii():
        return ""
    return token
