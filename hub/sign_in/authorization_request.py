"""The authorization request: the URL at which a person signs in (RFC 6749 4.1.1, RFC 7636, RFC 8707). Pure.

Parameters come after a query that the endpoint has already. Each value is percent-encoded as it is: a URL library
would write the resource another way, and authorization servers compare it as text.
"""

import hashlib
import secrets
from base64 import urlsafe_b64encode
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from config.security_settings import OWN_PARAMETERS
from hub.sign_in.parse_redirect_uri import RedirectUri
from hub.wire.questions.page_urls import MAX_OPENED_CHARS, is_openable
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
