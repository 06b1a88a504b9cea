"""The authorization request: the URL at which a person signs in (RFC 6749 4.1.1, RFC 7636, RFC 8707). Pure.

Parameters come after a query that the endpoint has already. Each value is percent-encoded as it is: a URL library
would write the resource another way, and authorization servers compare it as text.
"""

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from config.oauth_settings import OWN_PARAMETERS
from upstreams.oauth.model import OAuthProblem

SECRET_BYTES: Final = 32
MAX_URL_BYTES: Final = 8 << 10
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_TEXT = re.compile(r"[!-~]+", re.A)


class RequestSecrets(Struct, frozen=True):
    """Values that tie an authorization response, and the code in it, to one request."""

    state: str
    verifier: str
    nonce: str

    def __repr__(self) -> str:
        return "<RequestSecrets>"


def new_secrets() -> RequestSecrets:
    """Make secrets of 256 bits each."""
    return RequestSecrets(*(secrets.token_urlsafe(SECRET_BYTES) for _ in range(3)))


class AuthorizationRequest(Struct, frozen=True, kw_only=True):
    """The request to an authorization server, without the secrets of one attempt."""

    endpoint: str
    client_id: str
    redirect_uri: str
    scope: str = ""
    resource: str = ""
    """"": it is not sent."""
    extra: Mapping[str, str] = {}
    """Further parameters, as the configuration has them."""


def authorization_url(request: AuthorizationRequest, tied: RequestSecrets) -> str:
    """The URL to open.

    Raises:
        OAuthProblem: a parameter of the configuration is none of its business, or the URL is none to open.
    """
    scopes = request.scope.split(" ") if request.scope else []
    wanted = {
        "response_type": "code",
        "client_id": request.client_id,
        "redirect_uri": request.redirect_uri,
        "state": tied.state,
        "code_challenge": challenge(tied.verifier),
        "code_challenge_method": "S256",
        **({"scope": request.scope} if request.scope else {}),
        **({"resource": request.resource} if request.resource else {}),
        **({"nonce": tied.nonce} if "openid" in scopes else {}),
        **({"prompt": "consent"} if "offline_access" in scopes else {}),
    }
    if taken := sorted(OWN_PARAMETERS & request.extra.keys()):
        raise OAuthProblem(f"extra below [upstreams.NAME.oauth] cannot hold {', '.join(taken)}: hubd decides that")
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in {**wanted, **request.extra}.items()
    )
    endpoint = request.endpoint
    joint = "" if endpoint.endswith(("?", "&")) else "&" if "?" in endpoint else "?"
    url = f"{endpoint}{joint}{query}"
    if not is_openable(url):
        raise OAuthProblem(
            f"The authorization server names an address no browser is sent to: https, at most {MAX_URL_BYTES} bytes"
        )
    return url


def challenge(verifier: str) -> str:
    """The S256 code challenge of a verifier (RFC 7636 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def is_openable(url: str) -> bool:
    """True if a browser may be sent to `url`: https, or http of this machine. Without user name and fragment."""
    if len(url) > MAX_URL_BYTES or not _TEXT.fullmatch(url) or "\\" in url or "#" in url:
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)


def host_of(url: str) -> str:
    """The host of a URL, with its port if one is written, for people."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url
    except ValueError:
        return url
