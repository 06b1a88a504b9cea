"""The authorization request: the URL at which a person signs in (RFC 6749 4.1.1, RFC 7636, RFC 8707). Pure.

Parameters come after a query that the endpoint has already. Each value is percent-encoded as it is: a URL library
would write the resource another way, and authorization servers compare it as text.

The redirect URI in it is `/oauth/callback` at the listener that the hub has anyway, so that it stays the same: some
authorization servers compare redirect URIs as text, ports included. One that does not promise to say who it is with
every answer (RFC 9207) gets a path of its own, `/oauth/callback/N`: an answer that another server was made to send
comes to another path, and no code that is for one of them is shown to the other (RFC 9700 4.4.2.2).
"""

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from config.security_settings import OWN_PARAMETERS
from hub.wire.questions.page_urls import MAX_OPENED_CHARS, is_openable
from upstreams.oauth.client_metadata import CALLBACK
from upstreams.oauth.model import Discovery, OAuthAccount, OAuthClient, OAuthProblem


def new_secrets() -> tuple[str, str, str]:
    """A state, a verifier and a nonce, of 256 bits each, which tie a response, and the code in it, to one request."""
    state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
    return state, verifier, nonce


class AuthorizationRequest(Struct, frozen=True, eq=False, kw_only=True):
    """What a person is asked to authorize, where, and as which client."""

    verifier: str
    nonce: str
    account: OAuthAccount
    """By the configuration as it was then: what was found out or got for one account is not used for another."""
    discovery: Discovery
    client: OAuthClient
    redirect: "RedirectUri"
    scope: str
    resource: str
    """As it is sent; "": it is not."""

    def url(self, state: str) -> str:
        """The URL to open. Raises OAuthProblem: a parameter of the configuration is none of its business, or the URL is
        none to open."""
        endpoint, extra = self.discovery.server.authorization_endpoint, self.account.settings.extra
        scopes = self.scope.split(" ") if self.scope else []
        wanted = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect.text,
            "state": state,
            "code_challenge": challenge(self.verifier),
            "code_challenge_method": "S256",
            **({"scope": self.scope} if self.scope else {}),
            **({"resource": self.resource} if self.resource else {}),
            **({"nonce": self.nonce} if "openid" in scopes else {}),
            **({"prompt": "consent"} if "offline_access" in scopes else {}),
        }
        if taken := sorted(OWN_PARAMETERS & extra.keys()):
            raise OAuthProblem(f"extra below [upstreams.NAME.oauth] cannot hold {', '.join(taken)}: hubd decides that")
        query = urlencode({**wanted, **extra}, safe="", quote_via=quote)
        joint = "" if endpoint.endswith(("?", "&")) else "&" if "?" in endpoint else "?"
        url = f"{endpoint}{joint}{query}"
        if not is_openable(url):
            text = "The authorization server names an address no browser is sent to: https, at most"
            raise OAuthProblem(f"{text} {MAX_OPENED_CHARS} bytes")
        return url


def challenge(verifier: str) -> str:
    """The S256 code challenge of a verifier (RFC 7636 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def host_of(url: str) -> str:
    """The host of a URL, with its port if one is written, for people."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or url
    except ValueError:
        return url


WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}
_PATH = re.compile(r"/[!-~]*", re.A)


class Listening(NamedTuple):
    """The hub's HTTP listener, as a sign-in sees it."""

    host: str
    port: int
    is_lasting: bool
    """It is at this port in the next run, too."""

    @property
    def base(self) -> str | None:
        """The origin at which browsers of this machine reach it; None: at none."""
        host = WILDCARDS.get(self.host, self.host)
        return base_url(host, self.port) if host in ("127.0.0.1", "::1") else None

    @property
    def covers(self) -> frozenset[tuple[str, int]]:
        """The loopback addresses and ports that are this listener's."""
        hosts = {"0.0.0.0": ("127.0.0.1",), "::": ("127.0.0.1", "::1")}.get(self.host, (self.host,))
        return frozenset((host, self.port) for host in hosts)


class RedirectUri(NamedTuple):
    """A redirect URI, taken apart."""

    text: str
    host: str
    port: int
    path: str

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses at which browsers look for it: for `localhost` on both families, whichever they prefer."""
        hosts = ("127.0.0.1", "::1") if self.host == "localhost" else (self.host,)
        return tuple((host, self.port) for host in hosts)

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")


def parse_redirect(uri: str) -> RedirectUri:
    """Read a redirect URI. Raises OAuthProblem: it is none that a browser could come back to."""
    problem = OAuthProblem(f"redirect_uri: {uri!r} is no loopback http address with a port, nor an https one")
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise problem from None
    if not host or "@" in parts.netloc or "#" in uri or "?" in uri or "\\" in uri:
        raise problem
    found = RedirectUri(uri, host, port or (443 if parts.scheme == "https" else 80), parts.path or "/")
    is_reachable = parts.scheme == "https" or (parts.scheme == "http" and found.is_loopback)
    if not is_reachable or not _PATH.fullmatch(found.path):
        raise problem
    return found


def callback_at(base: str, number: int) -> str:
    """The redirect URI below `base`, such as `http://127.0.0.1:8765`; `number` 0: the one without a number."""
    return f"{base}{CALLBACK}/{number}" if number else f"{base}{CALLBACK}"


def base_url(host: str, port: int) -> str:
    """The origin of a listener."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
