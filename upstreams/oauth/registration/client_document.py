"""The hub's description of itself for authorization servers: what it registers with, and the client metadata document.

A document (draft-ietf-oauth-client-id-metadata-document) lies at an https URL, which is the client id. One that is not
the hub's own, but hosted for all hubs, knows no other port than the default one. Pure.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from config.oauth_settings import OAuthConfig
from upstreams.oauth.discovery.addresses import address_of, is_on_this_machine

PATH: Final = "/oauth/client.json"
CALLBACK: Final = "/oauth/callback"
"""Path of the redirect URIs of a document. Those with a number are for servers that do not say who they are, and a
document is the client id at many servers: none of them may send a browser to another one's redirect URI."""
SHARED_ORIGINS: Final = ("http://127.0.0.1:8765", "http://localhost:8765")
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
RESPONSE_TYPES: Final = ("code",)


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
    return {
        "client_id": base + PATH,
        "client_uri": base + "/",
        **description(config.client_name, uris, "none"),
    }


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
    uris = document.get("redirect_uris")
    flaws = []
    if document.get("client_id") != url:
        flaws.append("does not repeat its own URL as client_id")
    if not isinstance(uris, list) or redirect_uri not in uris:
        flaws.append(f"does not name the redirect URI {redirect_uri}")
    if not isinstance(document.get("client_name"), str):
        flaws.append("has no client_name")
    if document.get("token_endpoint_auth_method", "none") != "none":
        flaws.append("wants another token_endpoint_auth_method than none")
    flaws += [
        f"lacks {missing} in {member}"
        for member, due in (("grant_types", GRANT_TYPES), ("response_types", RESPONSE_TYPES))
        for missing in due
        if not _has(document.get(member), missing)
    ]
    return flaws


def _has(value: object, member: str) -> bool:
    return isinstance(value, list) and member in value
