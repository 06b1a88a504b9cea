"""Flow, step by step: all that a client does at one authorization server, as a report.

    python -m tests.support.oauth.flow_steps ISSUER [--glewlwyd]

A step is `ok`, `no` (the server does not offer it) or `BAD` (it offers it and it failed).
"""

import argparse
import base64
import json
import sys
from typing import Any, NamedTuple

from tests.support.oauth.flow import REDIRECT, SCOPE, Client, basic, call
from tests.support.oauth.sign_in import Stuck

LOCALHOST = "http://localhost:8765/oauth/callback"
OTHER_PORT = "http://127.0.0.1:9999/oauth/callback"


class Step(NamedTuple):
    name: str
    verdict: str
    detail: str


class Report:
    def __init__(self, client: Client, *, scope: str = SCOPE, more_scope: str = "mcp:write") -> None:
        self.client, self.scope, self.more = client, scope, more_scope
        self.steps: list[Step] = []

    def note(self, name: str, good: bool, detail: object = "", *, otherwise: str = "BAD") -> None:
        self.steps.append(Step(name, "ok" if good else otherwise, str(detail)))

    def run(self, *, introspect: str | None = None) -> list[Step]:
        """Take every step. `introspect`: ID:SECRET of a protected server."""
        self.discovery()
        self.registration()
        self.code()
        tokens = self.client.tokens(self.scope)
        self.access_token(tokens["access_token"], introspect)
        if "refresh_token" in tokens:
            self.refresh(tokens["refresh_token"])
        self.step_up()
        if "revocation_endpoint" in self.client.metadata:
            self.revocation(self.client.tokens(self.scope))
        self.mistakes()
        return self.steps

    def discovery(self) -> None:
        place = self.client.discover()
        found = self.client.metadata
        self.note("metadata", True, place)
        self.note("its issuer is what was asked for", found.get("issuer") == self.client.issuer, found.get("issuer"))
        for name, good in {
            "PKCE S256 advertised": "S256" in found.get("code_challenge_methods_supported", ()),
            "iss advertised": bool(found.get("authorization_response_iss_parameter_supported")),
            "client documents advertised": bool(found.get("client_id_metadata_document_supported")),
        }.items():
            self.note(name, good, otherwise="no")

    def registration(self) -> None:
        if self.client.registration or "registration_endpoint" not in self.client.metadata:
            return self.note("registration", False, otherwise="no")
        said = self.client.register()
        return self.note("registration", bool(self.client.registration), said.status)

    def code(self) -> None:
        trip = self.client.sign_in(self.scope)
        self.note("sign-in and consent", "code" in trip.found, self.client.walker.trail)
        self.note("state comes back", trip.found.get("state") == trip.asked["state"])
        promised = self.client.metadata.get("authorization_response_iss_parameter_supported")
        same = trip.found.get("iss") == self.client.metadata["issuer"]
        self.note("iss comes back", same, trip.found.get("iss"), otherwise="BAD" if promised else "no")
        said = self.client.exchange(trip)
        self.note("code for tokens", said.status == 200 and "access_token" in said.body, said.error)
        self.note("Cache-Control: no-store", "no-store" in said.headers.get("cache-control", ""), otherwise="no")
        again = self.client.exchange(trip)
        self.note("a code is good once", again.status >= 400, f"{again.status} {again.error}")

    def access_token(self, access: str, introspect: str | None) -> None:
        metadata = self.client.metadata
        if access.count(".") == 2:
            head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in access.split(".")[:2])
            kids = [key.get("kid") for key in call(metadata["jwks_uri"]).body["keys"]]
            self.note("the key of the JWT is in the JWKS", head.get("kid") in kids, head.get("alg"))
            audience = claims.get("aud")
            mine = self.client.resource in (audience if isinstance(audience, list) else [audience])
            self.note("its audience is the resource", mine, audience, otherwise="no")
        elif introspect and "introspection_endpoint" in metadata:
            who = basic(*introspect.split(":", 1))
            said = call(metadata["introspection_endpoint"], {"token": access}, headers=who)
            self.note("introspection", said.status == 200 and said.body.get("active") is True, said.body)
            said = call(metadata["introspection_endpoint"], {"token": "nonsense"}, headers=who)
            self.note("introspection of nonsense", said.status == 200 and said.body.get("active") is False, said.body)

    def refresh(self, old: str) -> None:
        said = self.client.renew(old)
        self.note("refresh", said.status == 200, said.error)
        new = said.body.get("refresh_token", old) if said.status == 200 else old
        self.note("refresh tokens are rotated", new != old, otherwise="no")
        if new != old:
            again = self.client.renew(old)
            self.note("the old refresh token is refused", again.status >= 400, again.error, otherwise="no")
            after = self.client.renew(new)
            self.note("and ends the family", after.status >= 400, after.error, otherwise="no")

    def step_up(self) -> None:
        trip = self.client.sign_in(f"{self.scope} {self.more}")
        if "code" not in trip.found:
            return self.note("more scope by asking again", False, trip.found, otherwise="no")
        said = self.client.exchange(trip)
        granted = said.body.get("scope", "") if said.status == 200 else ""
        return self.note("more scope by asking again", self.more in granted.split(), granted)

    def revocation(self, tokens: dict[str, Any]) -> None:
        kind = "refresh_token" if "refresh_token" in tokens else "access_token"
        fields, headers = self.client.who()
        form = {"token": tokens[kind], "token_type_hint": kind, **fields}
        said = call(self.client.metadata["revocation_endpoint"], form, headers=headers)
        self.note("revocation", said.status == 200, f"{kind}: {said.status}")
        if kind == "refresh_token":
            after = self.client.renew(tokens[kind])
            self.note("refresh after revocation is refused", after.status >= 400, after.error)

    def mistakes(self) -> None:
        """What a client might do wrong, and whether the server minds."""
        client = self.client
        for name, over in {
            "a wrong verifier is refused": {"code_verifier": "x" * 64},
            "another redirect_uri for the code is refused": {"redirect_uri": REDIRECT + "2"},
        }.items():
            said = client.exchange(client.sign_in(self.scope), **over)
            self.note(name, said.status >= 400, f"{said.status} {said.error}")
        for name, redirect in {"another port on loopback": OTHER_PORT, "localhost for 127.0.0.1": LOCALHOST}.items():
            try:
                self.note(name, "code" in client.sign_in(self.scope, redirect=redirect).found, otherwise="no")
            except Stuck as error:
                self.note(name, False, str(error).split("\n")[0], otherwise="no")
        said = client.renew("nonsense")
        self.note("a refresh token of nobody: invalid_grant", said.error == "invalid_grant", said.error, otherwise="no")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("issuer")
    parser.add_argument("--glewlwyd", action="store_true", help="sign in by Glewlwyd's API")
    parser.add_argument("--introspect", help="ID:SECRET of a protected server")
    args = parser.parse_args()
    scope = "openid mcp" if args.glewlwyd else SCOPE
    steps = Report(Client(args.issuer, glewlwyd=args.glewlwyd), scope=scope).run(introspect=args.introspect)
    sys.stdout.writelines(f"{step.verdict:3}  {step.name:44} {step.detail}\n" for step in steps)
    return sum(step.verdict == "BAD" for step in steps)


if __name__ == "__main__":
    sys.exit(main())
