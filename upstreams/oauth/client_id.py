"""Client ids: the one by which an authorization server knows the hub, found or made.

In this order: the operator's; one that was registered before; the URL of a client metadata document; a new registration
(RFC 7591); else somebody has to register the hub by hand.
"""

from typing import Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from config.diagnostics import quote_toml
from config.security_settings import OAuthConfig, UpstreamOAuth
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.terms_and_answers import Fetched, FetchFailed
from upstreams.oauth import client_metadata, model
from upstreams.oauth.discovery.discover import allowance_for, check_available, sentence
from upstreams.oauth.discovery.metadata import below
from upstreams.oauth.discovery.peer_urls import show_url
from upstreams.oauth.store.grant_store import Clients

FIRST_USED: Final = ("", "")
"""Issuer and redirect URI under which the first use of a configured client id is kept."""
WITH_METHOD: Final = ""
"""The redirect URI under which the method is kept that a server takes of a configured client id."""
SIGN_IN_S: Final = 600.0
"""Time that a secret has to last: a sign-in may take so long."""
_SCOPE_ERRORS: Final = ("invalid_client_metadata", "invalid_scope")
_SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")


class ClientWish(Struct, frozen=True):
    """The client id that is wanted after what happened with the last one."""

    anew: bool = False
    """The one that is kept was refused, or its last sign-in led nowhere."""
    other_method: bool = False
    """The token endpoint refused it, perhaps for the way in which it was proved."""
    with_scope: bool = False
    """The server refuses scopes that were not registered."""


class ClientSearch(Struct, frozen=True):
    """The search for the client id to sign in with at the authorization server of `discovery`. Raises OAuthProblem:
    there is none before somebody does something; OAuthUnavailable: the authorization server cannot be asked now."""

    fetch: Fetcher
    discovery: model.Discovery
    settings: UpstreamOAuth
    hub: OAuthConfig
    redirect_uri: str
    upstream: str

    async def find(self, clients: Clients, now: float, wish: ClientWish) -> model.OAuthClient:
        """The client id, one that is registered if need be. Its redirect URI is the one to use, which may have
        `localhost` in place of `127.0.0.1`. `now`: wall time. Cancellation: a registration may have been made, and is
        forgotten."""
        server, settings, upstream = self.discovery.server, self.settings, self.upstream
        if settings.client_id:
            client = client_of_settings(server, settings, self.redirect_uri, upstream)
            if not settings.issuer:
                await trio.to_thread.run_sync(_hold_to_issuer, client, upstream, clients)
            if settings.token_auth != "auto" or client.token_auth not in _SECRET_METHODS:
                return client
            return await trio.to_thread.run_sync(_choose_method, client, server, upstream, clients, wish.other_method)
        self._check_grant()
        key = server.issuer, self.redirect_uri, upstream
        refused = await trio.to_thread.run_sync(clients.find, *key) if wish.anew or wish.with_scope else None
        async with clients.turn(*key):
            kept = await trio.to_thread.run_sync(clients.find, *key)
            if kept is not None and kept != refused and (not kept.expires_at or now + SIGN_IN_S < kept.expires_at):
                return kept
            if document := self._document_client(is_refused=wish.anew):
                return document
            method = refused.token_auth if refused is not None and wish.other_method else ""
            client = await self._register(method, self.discovery.scope if wish.with_scope else "")
            await trio.to_thread.run_sync(clients.put, *key, client)
            return client

    async def foresee(self) -> str:
        """The way in which the hub would get its client id, as the `kind` of a client says it. Nothing is registered,
        but a metadata document is read: a flaw of it is a problem."""
        server, settings = self.discovery.server, self.settings
        if settings.client_id:
            return client_of_settings(server, settings, self.redirect_uri, self.upstream).kind
        self._check_grant()
        if document := self._document_client():
            if flaw := await check_client_document(self.fetch, self.hub, self.redirect_uri):
                raise model.OAuthProblem(flaw)
            return document.kind
        self._method()
        return "registered"

    def _check_grant(self) -> None:
        if self.settings.grant != "authorization_code":
            why = f"{self.upstream} has grant = {quote_toml(self.settings.grant)}, for which client_id is needed;"
            raise model.OAuthProblem(f"{why} set it {below(self.upstream)}.")

    def _document_client(self, *, is_refused: bool = False) -> model.OAuthClient | None:
        """The client that a metadata document describes; None: it is not to be used at this server.

        A server that has just refused it, perhaps since it cannot read the document, may still register the hub. One
        that does not say who it is with every answer (RFC 9207) gets none: the client id is the same at all servers, so
        another one could send browsers there, and would get the code (RFC 9700 4.4).
        """
        url, server = self.hub.client_metadata_url, self.discovery.server
        is_open = "none" in (server.token_auth_methods or ("none",))
        takes_it = url and server.reads_client_documents and server.sends_issuer and is_open
        is_used_up = is_refused and server.registration_endpoint
        if not takes_it or is_used_up or not client_metadata.has_redirect_uri(url, self.redirect_uri):
            return None
        return model.OAuthClient(issuer=server.issuer, client_id=url, redirect_uri=self.redirect_uri, kind="document")

    # --- a new registration -------------------------------------------------------------------------------------------

    def _method(self, refused: str = "") -> str:
        """The method to register for; `refused`: that of the client that was refused. Raises OAuthProblem."""
        server = self.discovery.server
        if not server.registration_endpoint:
            raise self._no_stranger()
        if (method := client_metadata.method_of(server, self.settings.token_auth, refused)) is None:
            raise model.OAuthProblem(
                f"{show_url(server.issuer)} wants clients to prove who they are in a way for which hubd has to be "
                f"registered by hand. Do that, and set client_id and private_key {below(self.upstream)}."
            )
        return method

    async def _register(self, refused: str, scope: str) -> model.OAuthClient:
        """Register, with at most three further tries: by the usual method, without scope, with `localhost`."""
        method, redirect_uri = self._method(refused), self.redirect_uri
        answer = await self._post(redirect_uri, method, scope)
        usual = client_metadata.method_of(self.discovery.server, self.settings.token_auth) or method
        if method != usual and answer.status not in (200, 201):
            answer = await self._post(redirect_uri, method := usual, scope)
        if scope and _refusal(answer) in _SCOPE_ERRORS:
            answer = await self._post(redirect_uri, method, scope := "")
        if _refusal(answer) == "invalid_redirect_uri" and "//127.0.0.1" in redirect_uri:
            redirect_uri = redirect_uri.replace("//127.0.0.1", "//localhost", 1)
            answer = await self._post(redirect_uri, method, scope)
        if answer.status not in (200, 201):
            raise self._no_stranger(f"{answer.status} {_refusal(answer)}".strip(), code=_refusal(answer))
        issuer = self.discovery.server.issuer
        try:
            return client_metadata.read_registration(answer.json_object(), issuer, redirect_uri, method)
        except client_metadata.BadRegistration as bad:
            raise model.OAuthProblem(
                f"{show_url(issuer)} registered hubd for {self.upstream} in a way that cannot be used: it {bad}. "
                f"Register hubd there by hand and set client_id {below(self.upstream)}."
            ) from None

    async def _post(self, redirect_uri: str, method: str, scope: str) -> Fetched:
        endpoint = self.discovery.server.registration_endpoint
        body = client_metadata.registration(self.hub, redirect_uri, method, scope)
        try:
            answer = await self.fetch.post_json(endpoint, body, self.discovery.allowed)
        except FetchFailed as failed:
            if failed.refused:
                raise model.OAuthProblem(sentence(f"hubd cannot register for {self.upstream}: {failed.text}")) from None
            raise model.OAuthUnavailable(sentence(failed.text), sent=failed.sent) from None
        check_available(answer, endpoint, sent=True)
        return answer

    def _no_stranger(self, answer: str = "", *, code: str = "") -> model.OAuthProblem:
        """The hub has to be registered by hand. `answer`: the status of a registration, and its error."""
        why = f" ({answer})" if answer else ""
        return model.OAuthProblem(
            f"{show_url(self.discovery.server.issuer)} lets no unknown client in{why}. Register hubd there with the "
            f"redirect URI {self.redirect_uri} and set client_id {below(self.upstream)}.",
            code=code,
        )


def _refusal(answer: Fetched) -> str:
    """The error of an answer; "": it is none, or cannot be shown."""
    return "" if answer.status in (200, 201) else client_metadata.error_code(answer.json_object())


# --- the operator's ---------------------------------------------------------------------------------------------------


def client_of_settings(
    server: model.AuthorizationServer, settings: UpstreamOAuth, redirect_uri: str, upstream: str
) -> model.OAuthClient:
    """The client that the operator registered. Raises OAuthProblem: a setting is missing without which it is not to be
    used."""
    for setting, value in (("client_secret", settings.client_secret), ("private_key", settings.private_key)):
        if value is not None and not settings.issuer:
            issuer = quote_toml(show_url(server.issuer))
            raise model.OAuthProblem(
                f"{upstream} has a {setting}, which belongs to one authorization server; write that down as "
                f"issuer = {issuer} {below(upstream)}, if it is the right one. Otherwise whichever {upstream} names "
                f"would get the {setting}."
            )
    method = _usual_method(server, settings) if settings.token_auth == "auto" else settings.token_auth
    needed = "client_secret" if method in _SECRET_METHODS else "private_key" if method == "private_key_jwt" else ""
    if needed and getattr(settings, needed) is None:
        text = f"{upstream} has token_auth = {quote_toml(method)}, which needs {needed} {below(upstream)}."
        raise model.OAuthProblem(text)
    return model.OAuthClient(
        issuer=server.issuer,
        client_id=settings.client_id,
        secret=settings.client_secret,
        token_auth=method,
        redirect_uri=redirect_uri,
        kind="configured",
    )


def _usual_method(server: model.AuthorizationServer, settings: UpstreamOAuth) -> str:
    if settings.private_key is not None:
        return "private_key_jwt"
    if settings.client_secret is None:
        return "none"
    listed = server.token_auth_methods or ()
    basic, post = _SECRET_METHODS
    return post if basic not in listed and post in listed else basic


def _hold_to_issuer(client: model.OAuthClient, upstream: str, clients: Clients) -> None:
    """Hold a configured client id to the issuer at which it was used first."""
    if (first := clients.find(*FIRST_USED, upstream)) is None or first.client_id != client.client_id:
        clients.put(*FIRST_USED, upstream, client)
    elif not model.same_issuer(first.issuer, client.issuer):
        now = show_url(client.issuer)
        raise model.OAuthProblem(
            f"The client_id of {upstream} was first used at {show_url(first.issuer)}, and {upstream} now names {now}, "
            f"where it was not tried. If that is right, set issuer = {quote_toml(now)} {below(upstream)}."
        )


def _choose_method(
    client: model.OAuthClient, server: model.AuthorizationServer, upstream: str, clients: Clients, is_refused: bool
) -> model.OAuthClient:
    """A configured client with the method of showing its secret that the server takes, as far as that is known: the one
    that is kept, or the next one after that was refused, which is kept then."""
    key = server.issuer, WITH_METHOD, upstream
    kept = clients.find(*key)
    is_known = kept is not None and kept.client_id == client.client_id and kept.token_auth in _SECRET_METHODS
    method = kept.token_auth if kept is not None and is_known else client.token_auth
    if is_refused:
        listed = [each for each in _SECRET_METHODS if each in (server.token_auth_methods or ())] or [*_SECRET_METHODS]
        method = listed[(listed.index(method) + 1) % len(listed)] if method in listed else listed[0]
        clients.put(*key, replace(client, secret=None, redirect_uri="", token_auth=method))
    return replace(client, token_auth=method)


async def check_client_document(fetch: Fetcher, hub: OAuthConfig, redirect_uri: str) -> str:
    """The flaw of the client metadata document of `client_metadata_url`, for a person; "": there is none.
    Authorization servers read it from elsewhere, and may see another one."""
    url = hub.client_metadata_url
    try:
        answer = await fetch.get(url, allowance_for(url, UpstreamOAuth()))
    except FetchFailed as failed:
        return sentence(f"The document at client_metadata_url cannot be read: {failed.text}")
    if answer.status != 200:
        return f"The document at client_metadata_url ({url}) cannot be read: the answer is {answer.status}."
    flaws = ", and ".join(client_metadata.flaws_of(answer.json_object(), url, redirect_uri))
    return f"The document at client_metadata_url ({url}) {flaws}; correct it, or remove the setting." if flaws else ""
