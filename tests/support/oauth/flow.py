"""Flow: what an OAuth client of MCP does at an authorization server, as calls for tests and for `flow_steps`.

Standard library only, so that it shows what the server does and not what a library makes of it.
"""

import base64
import hashlib
import json
import secrets
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from tests.support.oauth.sign_in import Walker

REDIRECT = "http://127.0.0.1:8765/oauth/callback"
SCOPE = "mcp offline_access"
LIMIT_S = 60


class Said(NamedTuple):
    """An answer; the body is parsed if it is JSON."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def error(self) -> str:
        """The OAuth error in it; some servers send none."""
        if isinstance(self.body, dict):
            return str(self.body.get("error"))
        return repr(self.body[:60]) if self.body else "(empty body)"


def call(
    url: str, form: dict[str, str] | None = None, *, body: object = None, headers: dict[str, str] | None = None
) -> Said:
    """GET, or POST with a form or a JSON body."""
    data, sent = None, {"Accept": "application/json", **(headers or {})}
    if form is not None:
        data, sent["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
    elif body is not None:
        data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    request = urllib.request.Request(url, data=data, headers=sent)
    try:
        answer = urllib.request.urlopen(request, timeout=LIMIT_S)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        text = answer.read()
        got = {name.lower(): value for name, value in answer.headers.items()}
        try:
            return Said(answer.status, got, json.loads(text))
        except ValueError:
            return Said(answer.status, got, text.decode("utf-8", "replace"))


def metadata_urls(issuer: str) -> list[str]:
    """The places of an authorization server's metadata, in the order of the MCP specification."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    if not path:
        return [base + oauth, base + openid]
    return [base + oauth + path, base + openid + path, base + path + openid]


class Trip(NamedTuple):
    """One trip through the authorization endpoint."""

    found: dict[str, str]
    """The parameters of the redirect."""
    asked: dict[str, str]
    verifier: str
    redirect: str


class Client:
    """A client at an authorization server; `client_id` makes it one that is registered already."""

    def __init__(
        self,
        issuer: str,
        *,
        resource: str = "http://127.0.0.1:8765/mcp",
        client_id: str | None = None,
        client_secret: str | None = None,
        user: str = "alice",
        glewlwyd: bool = False,
    ) -> None:
        self.issuer, self.resource, self.user, self.glewlwyd = issuer, resource, user, glewlwyd
        self.registration: dict[str, Any] = {}
        if client_id:
            method = "client_secret_basic" if client_secret else "none"
            self.registration = {"client_id": client_id, "token_endpoint_auth_method": method}
            self.registration |= {"client_secret": client_secret} if client_secret else {}
        self.metadata: dict[str, Any] = {}
        self.walker = Walker(user)

    def discover(self) -> str:
        """Read the metadata; returns its place. Raises: AssertionError if there is none."""
        for url in metadata_urls(self.issuer):
            said = call(url)
            if said.status == 200 and isinstance(said.body, dict):
                self.metadata = said.body
                return url
        raise AssertionError(f"{self.issuer} has no metadata")

    def register(self, method: str | None = None, **wishes: object) -> Said:
        """RFC 7591."""
        offered = self.metadata.get("token_endpoint_auth_methods_supported", ["none"])
        known = ("none", "client_secret_basic", "client_secret_post")
        wish = {
            "client_name": "rig",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method or next((name for name in known if name in offered), "none"),
            "application_type": "native",
            **wishes,
        }
        said = call(self.metadata["registration_endpoint"], body=wish)
        if said.status in (200, 201) and isinstance(said.body, dict):
            self.registration = said.body
        return said

    @property
    def client_id(self) -> str:
        return str(self.registration["client_id"])

    def who(self) -> tuple[dict[str, str], dict[str, str]]:
        """How the client says who it is: form fields and headers."""
        id, secret = self.client_id, self.registration.get("client_secret", "")
        method = self.registration.get("token_endpoint_auth_method", "client_secret_basic" if secret else "none")
        if method == "client_secret_basic":
            return {"client_id": id}, basic(id, secret)  # some demand the id in the body as well
        return {"client_id": id} | ({"client_secret": secret} if method == "client_secret_post" else {}), {}

    def authorization_url(self, scope: str = SCOPE, *, redirect: str = REDIRECT, **over: str) -> tuple[str, Trip]:
        """A URL to sign in at, and what is asked there."""
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect,
            "state": secrets.token_urlsafe(16),
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "scope": scope,
        }
        asked |= {"resource": self.resource} if self.resource else {}
        asked |= {"prompt": "consent"} if "offline_access" in scope.split() else {}
        asked |= {"nonce": secrets.token_urlsafe(16)} if "openid" in scope.split() else {}
        asked |= {"g_continue": ""} if self.glewlwyd else {}
        asked |= over
        endpoint = self.metadata["authorization_endpoint"]
        url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
        return url, Trip({}, asked, verifier, redirect)

    def sign_in(self, scope: str = SCOPE, *, redirect: str = REDIRECT, **over: str) -> Trip:
        """Sign in by forms. Raises: sign_in.Stuck."""
        url, trip = self.authorization_url(scope, redirect=redirect, **over)
        if self.glewlwyd:
            self.walker.glewlwyd_sign_in(self.issuer.removesuffix("/oidc"), self.client_id, scope)
        back = self.walker.walk(url, redirect)
        return trip._replace(found={name: values[0] for name, values in parse_qs(urlsplit(back).query).items()})

    def token(self, **form: str) -> Said:
        """Ask the token endpoint."""
        fields, headers = self.who()
        return call(self.metadata["token_endpoint"], {**form, **fields}, headers=headers)

    def exchange(self, trip: Trip, **over: str) -> Said:
        """Ask for the tokens of a code."""
        form = {
            "grant_type": "authorization_code",
            "code": trip.found["code"],
            "redirect_uri": trip.redirect,
            "code_verifier": trip.verifier,
            **({"resource": self.resource} if self.resource else {}),
        }
        return self.token(**{**form, **over})

    def renew(self, refresh_token: str, **more: str) -> Said:
        """Refresh."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return self.token(**form, **({"resource": self.resource} if self.resource else {}), **more)

    def tokens(self, scope: str = SCOPE) -> dict[str, Any]:
        """Sign in and fetch tokens. Raises: AssertionError if the server does not give them."""
        said = self.exchange(self.sign_in(scope))
        assert said.status == 200, said
        found: dict[str, Any] = said.body
        return found


def signed_up(issuer: str, **options: Any) -> Client:
    """A client that knows the server's metadata and is registered."""
    client = Client(issuer, **options)
    client.discover()
    if not client.registration:
        assert "client_id" in client.register().body
    return client


def basic(id: str, secret: str) -> dict[str, str]:
    """RFC 6749 2.3.1: both parts form-encoded."""
    pair = f"{quote(id, safe='')}:{quote(secret, safe='')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
