"""Lies: what `liar.py` can do wrong, one at a time, and what a client then has to do."""

from typing import Final

LIES: Final = {
    # metadata of the protected resource
    "prm-resource-other": "refuse; no request to the authorization server",
    "prm-resource-child": "refuse: it is narrower than the URL that was configured",
    "prm-html": "as if it were not there: the next place, then the fallback of 2025-03-26",
    "prm-500": "fail, to be tried again; no fallback",
    "prm-redirect": "not followed; the next place",
    "prm-metadata-address": "refuse: the authorization server is at a link-local address",
    "prm-no-servers": "refuse: no authorization server is named",
    # metadata of the authorization server
    "meta-issuer-other": "refuse; nothing is registered",
    "meta-issuer-slash": "taken: a root issuer with and without its slash are one",
    "meta-html": "the next place",
    "meta-500": "fail, to be tried again",
    "meta-huge": "refuse: over 64 KiB",
    "meta-slow": "fail after oauth_timeout",
    "meta-no-pkce": 'refuse, naming the setting pkce = "assume"',
    "meta-pkce-plain": "refuse",
    "meta-token-elsewhere": "taken: endpoints may be anywhere; but guarded (SEC-44)",
    "meta-authorize-javascript": "refuse; nothing is opened",
    "meta-authorize-file": "refuse; nothing is opened",
    "meta-authorize-flag": "refuse; nothing is opened",
    # registration
    "reg-403-text": "say that the server lets only known clients register, and how to give it one",
    "reg-scope-refused": "register again without scope",
    "reg-no-client-id": "refuse",
    "reg-other-redirect": "refuse: the redirect URI that was registered is not ours",
    "reg-jwt-only": "refuse: a method we cannot use was assigned",
    "reg-secret-for-none": "keep the secret; use it if `none` is refused",
    # the answer to the authorization request
    "auth-no-state": "refuse; the code is not sent anywhere",
    "auth-wrong-state": "refuse; the code is not sent anywhere",
    "auth-wrong-iss": "refuse; the code is not sent anywhere",
    "auth-no-iss": "refuse: iss was advertised",
    "auth-iss-slash": "refuse: compared as text",
    "auth-error-wrong-iss": "refuse, and do not show what the error says",
    "auth-error-html": "show the code of the error, its description escaped",
    "auth-code-twice": "refuse: two codes",
    # tokens
    "tok-200-error": "an error, though the status is 200",
    "tok-no-access": "refuse",
    "tok-type-mac": "refuse: not a bearer token",
    "tok-type-lower": "taken",
    "tok-expires-string": "taken as a number",
    "tok-expires-negative": "expired at once: refreshed before it is used",
    "tok-no-expires": "used until the server says 401",
    "tok-more-scope": "taken, noted in status",
    "tok-form-encoded": "taken: some answer so",
    "tok-html": "refuse; the page is not shown",
    "tok-redirect": "not followed; the attacker gets nothing",
    "tok-needs-post": "invalid_client for Basic: once more with the secret in the body, in a new sign-in",
    # refresh
    "ref-invalid-grant": "sign-in needed; not asked again",
    "ref-empty-400": "as invalid_grant",
    "ref-500": "the token is used while it lasts; asked again with growing pauses",
    "ref-not-rotated": "the old refresh token stays",
    "ref-lost": "the answer is lost: the old refresh token once more, then sign-in needed",
    # the protected server
    "res-401-always": "one refresh, one more try, then `upstream_auth`; never a loop",
    "res-401-fresh": "a token it has just been given is refused: say so, no loop",
    "res-401-bare": "no WWW-Authenticate at all: the well-known places",
    "res-403-loop": "at most three times, then `denied`",
    "res-403-more": "two sign-ins for more scopes at most, then `denied`; the tool `write` always wants one more",
    "res-challenge-two": "two schemes in one header: Bearer is found",
    "res-challenge-garbage": "as if there were no parameters",
    # two authorization servers (RFC 9207); both need --honest
    "mixup": "refuse: the code is the honest server's, and the liar's token endpoint never gets it",
    "mixup-redirect": "the same; here the liar's authorization endpoint sends the browser on to the honest one",
}
"""Name -> what is due."""
