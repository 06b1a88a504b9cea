"""Metadata of the hub as a client: what it registers with (RFC 7591), what an answer to that has to be, and the client
metadata document. Pure.

A document (draft-ietf-oauth-client-id-metadata-document) lies at an https URL, which is the client id. One that is not
the hub's own, but hosted for all hubs, knows no other port than the default one.
"""

import math
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from config.security_settings import OAuthConfig
from config.setting_declarations import Secret
from upstreams.oauth.discovery.peer_urls import address_of, is_on_this_machine
from upstreams.oauth.model import AuthorizationServer, OAuthClient

PATH: Final = "/oauth/client.json"
CALLBACK: Final = "/oauth/callback"
"""Path of the redirect URIs of a document. Those with a number are for servers that do not say who they are, and a
document is the client id at many servers: none of them may send a browser to another one's redirect URI."""
SHARED_ORIGINS: Final = ("http://127.0.0.1:8765", "http://localhost:8765")
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
RESPONSE_TYPES: Final = ("code",)
METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
"""Methods of the token endpoint that a registered client can use, the preferred one first."""
MAX_ID_CHARS: Final = 1024
MAX_SECRET_CHARS: Final = 4096
MAX_URIS: Final = 16
MAX_WALL_S: Final = 1e11
_ID: Final = re.compile(r"[!-~]++")
_SECRET: Final = re.compile(r"[ -~]++")
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGITS: Final = re.compile(r"[0-9]{1,11}")


def description(name: str, redirect_uris: Iterable[str], method: str) -> dict[str, Any]:
    """The members that registrations and documents have in common (RFC 7591 2)."""
    uris = list(redirect_uris)
    return {
        "client_name": name,
        "application_type": "native" if all(map(is_on_this_machine, uris)) else "web",
        "redirect_uris": uris,
        "grant_types": list(GRANT_TYPES),
        "response_types": list(RESPONSE_TYPES),
        "token_endpoint_auth_method": method,
    }


def client_document(base_url: str, config: OAuthConfig, redirect_uris: Collection[str] = ()) -> dict[str, Any]:
    """The document that a hub at `base_url` serves at `PATH`; by default with the redirect URIs of that hub."""
    base = base_url.removesuffix("/")
    uris = redirect_uris or [base + CALLBACK]
    return {"client_id": base + PATH, "client_uri": base + "/", **description(config.client_name, uris, "none")}


def has_redirect_uri(document_url: str, redirect_uri: str) -> bool:
    """True if the document at `document_url` can be expected to name `redirect_uri`: as the one for all hubs, or as
    that of the hub at the same origin. The hub does not read it."""
    address = address_of(document_url)
    origins = (*SHARED_ORIGINS, address.origin) if address else SHARED_ORIGINS
    return any(redirect_uri == origin + CALLBACK for origin in origins)


def flaws_of(document: dict[str, Any] | None, url: str, redirect_uri: str) -> list[str]:
    """The flaws of the document that was found at `url`, each as a clause about it."""
    if document is None:
        return ["is no JSON object"]
    method = document.get("token_endpoint_auth_method", "none")
    due = [*(("grant_types", each) for each in GRANT_TYPES), *(("response_types", each) for each in RESPONSE_TYPES)]
    demands = (
        ("does not repeat its own URL as client_id", document.get("client_id") == url),
        (f"does not name the redirect URI {redirect_uri}", _has(document.get("redirect_uris"), redirect_uri)),
        ("has no client_name", isinstance(document.get("client_name"), str)),
        ("wants another token_endpoint_auth_method than none", method == "none"),
        *((f"lacks {each} in {member}", _has(document.get(member), each)) for member, each in due),
    )
    return [flaw for flaw, is_met in demands if not is_met]


def _has(value: object, member: str) -> bool:
    return isinstance(value, list) and member in value


class BadRegistration(ValueError):
    """An answer that gives no client id to be used. The text is a clause after "it"."""


def method_of(server: AuthorizationServer, wanted: str = "auto", refused: str = "") -> str | None:
    """The method to register for: the operator's, else the first that the server lists; None: it has none of them.
    After a client of the method `refused`, the next one that is listed: some servers refuse what they list."""
    if wanted in METHODS:
        return wanted
    listed = server.token_auth_methods
    usable: list[str] = [method for method in METHODS if method in listed] if listed is not None else [METHODS[0]]
    if not usable:
        return None
    return usable[(usable.index(refused) + 1) % len(usable)] if refused in usable else usable[0]


def registration(hub: OAuthConfig, redirect_uri: str, method: str, scope: str = "") -> dict[str, Any]:
    """The body of a registration. Without `scope`: some servers refuse scopes that they do not know, and to others the
    registered ones are all that can be asked for later."""
    body = description(hub.client_name, [redirect_uri], method)
    return {**body, "scope": scope} if scope else body


def read_registration(answer: dict[str, Any] | None, issuer: str, redirect_uri: str, method: str) -> OAuthClient:
    """The client that a successful answer describes. Raises BadRegistration: it cannot be used."""
    if answer is None:
        raise BadRegistration("answers with something that is no JSON object")
    client_id = answer.get("client_id")
    if not isinstance(client_id, str) or len(client_id) > MAX_ID_CHARS or not _ID.fullmatch(client_id):
        raise BadRegistration("gives no client_id that can be used")
    uris = answer.get("redirect_uris")
    if uris is not None and not (isinstance(uris, list) and uris and all(each == redirect_uri for each in uris)):
        raise BadRegistration("names a redirect URI that is not the hub's")
    assigned = answer.get("token_endpoint_auth_method") or method
    if assigned not in METHODS:
        raise BadRegistration("assigns a method of proving its client_id that hubd cannot use")
    if (secret := _secret(answer.get("client_secret"))) is None and assigned != "none":
        raise BadRegistration("gives no client_secret, which it wants to be shown")
    return OAuthClient(
        issuer=issuer,
        client_id=client_id,
        secret=secret,
        token_auth=assigned,
        redirect_uri=redirect_uri,
        expires_at=_end_of(answer.get("client_secret_expires_at")) if secret else 0.0,
    )


def error_code(answer: dict[str, Any] | None) -> str:
    """The error of an answer that refuses (RFC 7591 3.2.2), if it can be shown."""
    code = answer.get("error") if answer else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _secret(value: object) -> Secret | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_SECRET_CHARS or not _SECRET.fullmatch(value):
        raise BadRegistration("gives no client_secret that can be used")
    return Secret(value)


def _end_of(value: object) -> float:
    """The wall time at which a secret ends; 0: never, or nobody knows."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < MAX_WALL_S and math.isfinite(value) else 0.0
