"""The grant that an answer of a token endpoint makes: the first one of a sign-in, or the next generation. Pure."""

from urllib.parse import urlsplit

from msgspec.structs import replace

from upstreams.oauth.model import AuthorizationServer, Grant, GrantKey, OAuthClient, TokenAnswer


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in one spelling; "": it is none of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    host = parts.hostname
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}" if host and port else ""


def first_grant(
    answer: TokenAnswer,
    key: GrantKey,
    *,
    url: str,
    server: AuthorizationServer,
    client: OAuthClient,
    asked_scope: str,
    now: float,
    sends_resource: bool = True,
) -> Grant:
    """The grant of a new sign-in at the upstream `url`; its tokens are sent to no other origin. `now` is wall time."""
    return Grant(
        key=key,
        access_token=answer.access_token,
        refresh_token=answer.refresh_token,
        id_token=answer.id_token,
        obtained_at=now,
        expires_at=None if answer.expires_in_s is None else now + answer.expires_in_s,
        scope=asked_scope if answer.scope is None else answer.scope,
        asked_scope=asked_scope,
        signed_in_at=now,
        server=server,
        client=client,
        sends_resource=sends_resource,
        origin=origin_of(url),
    )


def next_grant(grant: Grant, answer: TokenAnswer, now: float) -> Grant:
    """The next generation: what the answer does not replace stays (RFC 6749 6). `now` is wall time."""
    return replace(
        grant,
        generation=grant.generation + 1,
        access_token=answer.access_token,
        refresh_token=answer.refresh_token or grant.refresh_token,
        id_token=answer.id_token or grant.id_token,
        obtained_at=now,
        expires_at=None if answer.expires_in_s is None else now + answer.expires_in_s,
        scope=grant.scope if answer.scope is None else answer.scope,
        note="",
        sign_in_needed=False,
    )


def is_for(grant: Grant, url: str) -> bool:
    """True if the tokens of `grant` may be sent to `url`: it is of the origin that they were got for."""
    return origin_of(url) == (grant.origin or origin_of(grant.key.resource or grant.key.issuer)) != ""
