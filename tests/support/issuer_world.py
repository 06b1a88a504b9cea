"""Two authorization servers without a network, and tokens of one of them, good ones and bad ones."""

import json
import time

import trio

from tests.support.oauth.bad_tokens import Keys, jwk_ec, tokens
from upstreams.fetch.terms_and_answers import Fetched

URL, OTHER, HUB = "https://as.example/realms/team", "https://other.example", "https://hub.example.com/mcp"
NOW = int(time.time())  # noqa: TID251  # made once: tokens say when they end
KEYS = Keys()
TOKENS = tokens(KEYS, URL, HUB, now=NOW, other_issuer=OTHER)
BY_NAME = {each["name"]: each["token"] for each in TOKENS}


class World:
    """The web as one hub sees it: authorization servers that answer, or do not. Also the time of day."""

    def __init__(self):
        self.now = float(NOW)
        self.jwks = KEYS.public()
        self.fault = None
        self.asked = []
        self.answers = {}
        self.delay_s = 0.0
        self._began = None
        self.without: tuple[str, ...] = ()
        """Members that the metadata lack."""

    def __call__(self):
        return self.now if self._began is None else self.now + trio.current_time() - self._began

    def running(self):
        """Let the time of day go on with trio's clock from now on."""
        self._began = trio.current_time()

    async def get(self, url, allowed, *, headers=None):
        self.asked.append(url)
        if self.fault is not None and "jwks" in url:
            return await self.fault()
        await trio.sleep(self.delay_s)
        for issuer in (URL, OTHER):
            path = issuer.removeprefix("https://").partition("/")[2]
            origin = issuer.removesuffix(f"/{path}")
            if url == f"{origin}/.well-known/oauth-authorization-server{path and f'/{path}'}":
                document = {
                    "issuer": issuer,
                    "jwks_uri": f"{issuer}/jwks",
                    "introspection_endpoint": f"{issuer}/introspect",
                }
                for name in self.without:
                    del document[name]
                return Fetched(200, {}, json.dumps(document).encode())
            if url == f"{issuer}/jwks":
                own = self.jwks if issuer == URL else {"keys": [jwk_ec(KEYS.stranger, "e1", alg="ES256")]}
                return Fetched(200, {}, json.dumps(own).encode())
        return Fetched(404, {}, b"")

    async def post_form(self, url, fields, allowed, *, headers):
        assert headers["authorization"].startswith("Basic ")
        token = dict(fields)["token"]
        self.asked.append(token)
        await trio.sleep(self.delay_s)
        if self.fault is not None:
            return await self.fault()
        return Fetched(200, {}, json.dumps(self.answers.get(token, {"active": False})).encode())
