"""Token issuer: metadata, keys and the tokens of `bad_tokens`; its keys can be served badly, and exchanged.

    python -m tests.support.oauth.token_issuer AUDIENCE [--port 0] [--other ISSUER] [--scope mcp]

Control below /_rig/: GET `tokens` makes all tokens anew (`?sub=bob`: of bob), GET `log` is what was asked, POST
`revoke?token=NAME` takes an opaque one back, POST `rotate-keys` exchanges all
keys; POST `jwks?fault=NAME`, `metadata?fault=NAME` and `introspection?fault=NAME` serve these badly from now on (`500`,
`html`, `huge`, `slow`, `hang-up`; no fault: well again). At the introspection endpoint
(`rig-resource-server:introspect-me`) the opaque tokens of `OPAQUE` are known by their names.
"""

import argparse
import base64
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.oauth.bad_tokens import Keys, tokens
from tests.support.oauth.pages import HTML, Pages, announce, listen, serve

CLIENT = "rig-resource-server:introspect-me"
SLOW_S = 60
HUGE_B = 1_000_000
OPAQUE: dict[str, tuple[int, dict[str, Any]]] = {
    "opaque-good": (200, {}),
    "opaque-inactive": (401, {"active": False}),
    "opaque-active-text": (401, {"active": "true"}),
    "opaque-other-audience": (401, {"aud": "https://elsewhere.example/mcp"}),
    "opaque-no-audience": (401, {"aud": None}),
    "opaque-other-issuer": (401, {"iss": "https://attacker.example"}),
    "opaque-expired": (401, {"exp": 1}),
    "opaque-no-sub": (401, {"sub": None}),
    "opaque-other-scope": (403, {"scope": "openid"}),
}
"""Token -> the status that is due, and the difference from a good answer (None: the member is not there)."""


class Issuer:
    def __init__(self, args: argparse.Namespace, port: int) -> None:
        self.args = args
        self.url = f"http://127.0.0.1:{port}"
        self.keys = Keys()
        self.faults: dict[str, str] = {}
        self.log: list[dict[str, Any]] = []
        self.revoked: set[str] = set()

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "introspection_endpoint": f"{self.url}/introspect",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }

    def tokens(self, **more: str) -> list[dict[str, Any]]:
        now = int(time.time())  # noqa: TID251
        other = {"other_issuer": self.args.other} if self.args.other else {}
        return tokens(self.keys, self.url, self.args.audience, now=now, scope=self.args.scope, **other, **more)

    def introspected(self, token: str) -> dict[str, Any]:
        """RFC 7662."""
        if token not in OPAQUE or token in self.revoked:
            return {"active": False}
        now = int(time.time())  # noqa: TID251
        good = {"active": True, "iss": self.url, "sub": "alice", "aud": self.args.audience, "exp": now + 300}
        found = {**good, "scope": self.args.scope, "client_id": "host-1", **OPAQUE[token][1]}
        return {name: value for name, value in found.items() if value is not None}


class Answers(Pages):
    issuer: Issuer

    def route(self, method: str) -> None:
        issuer, url = self.issuer, urlsplit(self.path)
        if url.path.startswith("/_rig/"):
            return self.control(url.path.removeprefix("/_rig/"), parse_qs(url.query))
        issuer.log.append({"what": f"{method} {url.path}"})
        if url.path == "/.well-known/oauth-authorization-server":
            return self.say_or_fail("metadata", issuer.metadata())
        if url.path == "/jwks":
            return self.say_or_fail("jwks", issuer.keys.public())
        if url.path == "/introspect":
            return self.introspect()
        return self.say(404)

    def introspect(self) -> None:
        asked = parse_qs(self.body().decode()).get("token", [""])[0]
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(CLIENT.encode()).decode():
            return self.say(401, {"error": "invalid_client"})
        return self.say_or_fail("introspection", self.issuer.introspected(asked))

    def say_or_fail(self, what: str, good: dict[str, Any]) -> None:
        fault = self.issuer.faults.get(what)
        if fault == "500":
            return self.say(500)
        if fault == "html":
            return self.say(200, "<!doctype html><p>app", kind=HTML)
        if fault == "huge":
            return self.say(200, {**good, "padding": "x" * HUGE_B})
        if fault == "slow":
            time.sleep(SLOW_S)  # noqa: TID251
        if fault == "hang-up":
            self.close_connection = True
            return self.connection.close()
        return self.say(200, good)

    def control(self, what: str, query: dict[str, list[str]]) -> None:
        issuer = self.issuer
        if what == "tokens":
            return self.say(200, issuer.tokens(subject=query.get("sub", ["alice"])[0]))
        if what == "log":
            return self.say(200, issuer.log)
        if what == "rotate-keys":
            issuer.keys = Keys()
        elif what == "revoke":
            issuer.revoked.update(query["token"])
        elif what in ("jwks", "metadata", "introspection"):
            issuer.faults[what] = query.get("fault", [""])[0]
        else:
            return self.say(404)
        return self.say(200, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("audience")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--other", help="another issuer that the protected server trusts")
    parser.add_argument("--scope", default="mcp")
    args = parser.parse_args()
    listener = listen(args.port)
    issuer = Issuer(args, listener.getsockname()[1])
    serve(listener, type("Answers", (Answers,), {"issuer": issuer}))
    announce(issuer=issuer.url, control=issuer.url)


if __name__ == "__main__":
    main()
