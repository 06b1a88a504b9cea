"""Authorization: the liar as an authorization server, which lets everybody in at once."""

import base64
import hashlib
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from tests.support.oauth import liar_machines
from tests.support.oauth.liar_state import State
from tests.support.oauth.pages import HTML, Pages

SLOW_S = 60
METHODS = ["none", "client_secret_basic", "client_secret_post"]


class Authorization(Pages):
    state: State

    def metadata(self) -> None:
        """RFC 8414."""
        state, lie = self.state, self.state.lie
        if lie == "meta-html" and "authorization-server" in self.path:
            return self.say(200, "<!doctype html>", kind=HTML)
        if lie == "meta-500":
            return self.say(503)
        if lie == "meta-slow":
            return time.sleep(SLOW_S)  # noqa: TID251
        issuers = {"meta-issuer-other": "https://honest.example", "meta-issuer-slash": state.base + "/"}
        endpoints = {
            "meta-authorize-javascript": "javascript:alert(1)",
            "meta-authorize-file": "file:///etc/passwd",
            "meta-authorize-flag": "--flag=$(id)",
        }
        found: dict[str, Any] = {
            "issuer": issuers.get(lie or "", state.base),
            "authorization_endpoint": endpoints.get(lie or "", state.base + "/authorize"),
            "token_endpoint": (state.evil if lie == "meta-token-elsewhere" else state.base) + "/token",
            "registration_endpoint": state.base + "/register",
            "revocation_endpoint": state.base + "/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", *liar_machines.GRANTS],
            "token_endpoint_auth_methods_supported": METHODS[1:] if lie == "tok-needs-post" else METHODS,
            "code_challenge_methods_supported": ["plain"] if lie == "meta-pkce-plain" else ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        if lie == "mixup":
            found["authorization_endpoint"] = self.honest()["authorization_endpoint"]
        if lie == "meta-no-pkce":
            del found["code_challenge_methods_supported"]
        if state.args.no_iss:
            del found["authorization_response_iss_parameter_supported"]
        if state.args.no_dcr:
            del found["registration_endpoint"]
        if lie == "meta-huge":
            found["padding"] = "x" * 200_000
        return self.say(200, found)

    def honest(self) -> dict[str, Any]:
        """The metadata of the server that is mixed up with this one."""
        parts = urlsplit(self.state.args.honest)
        place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
        with urllib.request.urlopen(place, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def honest_client(self, wish: dict[str, Any]) -> dict[str, Any]:
        """A registration at the honest server, which whoever registers here gets as his own."""
        if self.state.args.honest_client:
            return {**wish, "client_id": self.state.args.honest_client}
        data, kind = json.dumps(wish).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.honest()["registration_endpoint"], data, kind)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def register(self) -> None:
        """RFC 7591."""
        state, lie = self.state, self.state.lie
        wish = json.loads(self.body())
        state.note(
            "registration",
            name=wish.get("client_name"),
            method=wish.get("token_endpoint_auth_method"),
            scope=wish.get("scope"),
            type=wish.get("application_type"),
            redirects=wish.get("redirect_uris"),
        )
        if lie == "reg-403-text" or state.args.no_dcr:
            return self.say(403, "Forbidden", kind="text/plain")
        if lie == "reg-scope-refused" and "scope" in wish:
            return self.say(400, {"error": "invalid_client_metadata", "error_description": "scope"})
        if lie in ("mixup", "mixup-redirect"):
            made = self.honest_client(wish)
            state.clients[made["client_id"]] = made
            return self.say(201, made)
        made = {**wish, "client_id": "c-" + state.secret(6)}
        state.secrets.discard(made["client_id"].removeprefix("c-"))
        if lie == "reg-no-client-id":
            del made["client_id"]
            return self.say(201, made)
        if lie == "reg-other-redirect":
            made["redirect_uris"] = [state.evil + "/callback"]
        if lie == "reg-jwt-only":
            made["token_endpoint_auth_method"] = "private_key_jwt"
        if made.get("token_endpoint_auth_method") != "none" or lie == "reg-secret-for-none":
            made |= {"client_secret": state.secret(), "client_secret_expires_at": 0}
        state.clients[made["client_id"]] = made
        return self.say(201, made)

    def authorize(self) -> None:
        state, lie = self.state, self.state.lie
        asked = dict(parse_qsl(urlsplit(self.path).query))
        state.note(
            "authorization",
            scope=asked.get("scope"),
            resource=asked.get("resource"),
            client=asked.get("client_id"),
            prompt=asked.get("prompt"),
            pkce=asked.get("code_challenge_method"),
            redirect=asked.get("redirect_uri"),
        )
        state.remember(asked.get("state"))
        if asked.get("client_id") in state.forgotten:
            return self.say(400, "<!doctype html><p>unknown client", kind=HTML)  # the client never hears of it
        if lie == "mixup-redirect":
            on = asked | ({"redirect_uri": state.args.honest_redirect} if state.args.honest_redirect else {})
            return self.say(302, headers={"Location": f"{self.honest()['authorization_endpoint']}?{urlencode(on)}"})
        code = state.secret(16)
        state.codes[code] = asked
        back = returned(lie, {"code": code, "state": asked.get("state", ""), "iss": state.base})
        if state.args.no_iss:
            back.pop("iss", None)
        query = urlencode(back) + ("&code=another" if lie == "auth-code-twice" else "")
        return self.say(302, headers={"Location": f"{asked.get('redirect_uri')}?{query}"})

    def client(self, form: dict[str, str]) -> tuple[str | None, str]:
        """Who asks at the token endpoint, and by which method."""
        header = self.headers.get("Authorization", "")
        if header.startswith("Basic "):
            return unquote_plus(base64.b64decode(header[6:]).decode().split(":")[0]), "basic"
        return form.get("client_id"), "post" if "client_secret" in form else "none"

    def token(self) -> None:
        state, lie = self.state, self.state.lie
        form = {name: values[0] for name, values in parse_qs(self.body().decode()).items()}
        client, how = self.client(form)
        grant = form.get("grant_type")
        asking = {"grant": grant, "client": client, "how": how, "code": "code" in form}
        state.note("token", **asking, resource=form.get("resource"), scope=form.get("scope"))
        state.remember(form.get("code"), form.get("code_verifier"))
        if lie == "tok-redirect":
            return self.say(307, headers={"Location": f"{state.evil}/token"})
        if client in state.forgotten or (lie == "tok-needs-post" and how == "basic"):
            return self.say(401, {"error": "invalid_client"})
        if lie == "reg-secret-for-none" and how == "none":
            return self.say(401, {"error": "invalid_client", "error_description": "Client secret is required"})
        if grant == "refresh_token":
            return self.refreshed(form, client)
        if grant in liar_machines.GRANTS:
            return self.say(*liar_machines.answer(state, grant, form, client or ""))
        asked = state.codes.pop(form.get("code", ""), {})
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = proof == asked.get("code_challenge") and form.get("redirect_uri") == asked.get("redirect_uri")
        if grant != "authorization_code" or not same:
            return self.say(400, {"error": "invalid_grant"})
        given = state.give(client or "", asked.get("scope", ""), form.get("resource"))
        if "openid" in asked.get("scope", "").split():
            given["id_token"] = liar_machines.id_token(state, client or "", asked.get("nonce"))
        return self.say(*told(lie, given))

    def refreshed(self, form: dict[str, str], client: str | None) -> None:
        state, lie = self.state, self.state.lie
        if lie == "ref-500":
            return self.say(503, headers={"Retry-After": "2"})
        if lie == "ref-empty-400":
            return self.say(400)
        old = None if lie == "ref-invalid-grant" else state.refresh.pop(form.get("refresh_token", ""), None)
        if old is None:
            state.note("refresh refused")
            return self.say(400, {"error": "invalid_grant"})
        given = state.give(client or "", old["scope"], old["resource"])
        if lie == "ref-not-rotated":
            state.refresh[form["refresh_token"]] = old
            state.refresh.pop(given.pop("refresh_token"))
        if lie == "ref-lost":
            self.close_connection = True
            return self.connection.close()
        return self.say(200, given)

    def revoke(self) -> None:
        """RFC 7009."""
        form = {name: values[0] for name, values in parse_qs(self.body().decode()).items()}
        token = form.get("token", "")
        known = bool(self.state.access.pop(token, None) or self.state.refresh.pop(token, None))
        self.state.note("revocation", hint=form.get("token_type_hint"), known=known)
        self.say(200)


def returned(lie: str | None, good: dict[str, str]) -> dict[str, str]:
    """The parameters of the redirect back to the client."""
    without = {"auth-no-state": "state", "auth-no-iss": "iss"}.get(lie or "")
    others: dict[str, dict[str, str]] = {
        "auth-wrong-state": {"state": "x" * 22},
        "auth-wrong-iss": {"iss": "https://honest.example"},
        "auth-iss-slash": {"iss": good["iss"] + "/"},
    }
    if lie == "auth-error-wrong-iss":
        said = {"error": "access_denied", "error_description": "call 555-PHISH"}
        return {**said, "state": good["state"], "iss": "https://honest.example"}
    if lie == "auth-error-html":
        said = {"error": "access_denied", "error_description": "<script>alert(1)</script>\x1b[31m"}
        return {**said, "state": good["state"], "iss": good["iss"]}
    return {name: value for name, value in {**good, **others.get(lie or "", {})}.items() if name != without}


def told(lie: str | None, given: dict[str, Any]) -> tuple[Any, ...]:
    """Status, body, headers and media type of the answer with tokens."""
    changed: dict[str, dict[str, Any]] = {
        "tok-type-mac": {"token_type": "mac"},
        "tok-type-lower": {"token_type": "bearer"},
        "tok-expires-string": {"expires_in": str(given["expires_in"])},
        "tok-expires-negative": {"expires_in": -1},
        "tok-more-scope": {"scope": given["scope"] + " admin"},
    }
    without = {"tok-no-access": "access_token", "tok-no-expires": "expires_in"}.get(lie or "")
    if lie == "tok-200-error":
        return 200, {"error": "bad_verification_code", "error_description": "expired"}
    if lie == "tok-form-encoded":
        return 200, urlencode(given), None, "application/x-www-form-urlencoded"
    if lie == "tok-html":
        return 200, "<!doctype html><p>Sign in", None, HTML
    return 200, {name: value for name, value in {**given, **changed.get(lie or "", {})}.items() if name != without}
