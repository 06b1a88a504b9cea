"""One authorization server whose tokens open the hub: its keys, and what it says when it is asked.

Keys are read at the start, every `KEYS_S` seconds, and when none of them has signed a token, at most once in
`UNKNOWN_S`: an issuer may have others by now, also under the same names. While they cannot be read those before count,
for `KEEP_S`; after that nobody can say what a token is worth.
"""

import logging
from base64 import b64encode
from collections.abc import Callable
from math import inf
from typing import Final
from urllib.parse import quote_plus

import trio
from msgspec import structs

from config.tables.access import AccessIssuer
from hub.downstream.access.claims import Jwt, Unfit, Unsigned, Verdict, verdict_of
from hub.downstream.access.issuer_metadata import (
    CannotAsk,
    Fetching,
    IssuerMetadata,
    addresses_of,
    read_json,
    read_metadata,
)
from hub.downstream.access.signing_keys import SigningKey, is_signed, key_for, read_keys

log = logging.getLogger("hubd")
KEYS_S: Final = 900.0
UNKNOWN_S: Final = 60.0
KEEP_S: Final = 86400.0
READ_S: Final = 5.0
ASK_S: Final = 2.0


class Issuer:
    """One configured issuer. `on_keys` is called with the keys that count once others do; `wall`: the time of day."""

    def __init__(
        self, settings: AccessIssuer, fetch: Fetching, wall: Callable[[], float], on_keys: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.keys: tuple[SigningKey, ...] = ()
        self._fetch = fetch
        self._wall = wall
        self._on_keys = on_keys
        self._metadata: IssuerMetadata | None = None
        self._good_at = -inf
        self._tried_at = -inf
        self._reading: trio.Event | None = None
        self.problem = ""
        """The reason why its keys could not be read the last time; "" if they could."""

    @property
    def has_keys(self) -> bool:
        """True if tokens can be judged by keys that are not too old."""
        return bool(self.keys) and trio.current_time() < self._good_at + KEEP_S

    def judge(self, token: Jwt) -> Verdict | Unfit:
        """The content of the token, or why it does not count."""
        if token.algorithm not in self.settings.algorithms:
            return Unfit("the algorithm of its signature is not one of `algorithms` of this issuer")
        key = key_for(token, self.keys)
        if key is None:
            return Unsigned(
                "its issuer shows no key that it could be signed with, or several that it does not tell apart"
            )
        if not is_signed(token, key):
            return Unsigned("its issuer has not signed it: the signature is another's, or it was changed")
        found = verdict_of(token.claims, self.settings, self._wall())
        return found if isinstance(found, Unfit) else structs.replace(found, key=key.print)

    @property
    def may_read_keys(self) -> bool:
        """True if keys can be read now because a token wants others than are there."""
        return trio.current_time() >= self._tried_at + UNKNOWN_S

    async def run(self) -> None:
        """Read the keys, again and again, until cancelled."""
        while True:
            await self.read_keys()
            await trio.sleep(KEYS_S if not self.problem else UNKNOWN_S)

    async def read_keys(self) -> None:
        """Read the keys, or wait for those who do. Never raises; takes `READ_S` at most."""
        if self._reading is not None:
            await self._reading.wait()
            return
        if self.problem and trio.current_time() < self._tried_at + READ_S:
            return  # it has just failed: a crowd of tokens must not become a crowd of requests
        self._reading = trio.Event()
        try:
            with trio.move_on_after(READ_S) as limit:
                await self._read()
            if limit.cancelled_caught:
                self._failed(f"{self.settings.issuer} does not answer in time")
        except CannotAsk as error:
            self._failed(str(error))
        finally:
            self._tried_at = trio.current_time()
            self._reading.set()
            self._reading = None

    async def _read(self) -> None:
        url = (await self._discover()).jwks_uri
        if not url and self.can_be_asked:
            self.problem = ""  # its tokens cannot be read, and need not be
            return
        document = await read_json(self._fetch, url, addresses_of(self.settings.issuer)) if url else None
        keys = () if document is None else read_keys(document)
        if not keys:
            self._metadata = None
            raise CannotAsk(f"{self.settings.issuer} shows no keys that could count")
        if self.problem:
            log.info("the keys of %s can be read again", self.settings.issuer)
        self.problem = ""
        self._good_at = trio.current_time()
        changed = {key.print for key in keys} != {key.print for key in self.keys}
        self.keys = keys
        if changed:
            self._on_keys()

    async def _discover(self) -> IssuerMetadata:
        if self._metadata is None:
            self._metadata = await read_metadata(self._fetch, self.settings.issuer)
        return self._metadata

    def _failed(self, problem: str) -> None:
        self._metadata = None
        if problem != self.problem:
            kept = "; those read before count for a day" if self.keys else ""
            log.warning("the keys of %s cannot be read: %s%s", self.settings.issuer, problem, kept)
        self.problem = problem

    # --- introspection ------------------------------------------------------------------------------------------------

    @property
    def can_be_asked(self) -> bool:
        """True if it says of tokens what they are worth (RFC 7662)."""
        return bool(self.settings.introspection.client_id)

    async def ask(self, token: str) -> Verdict | Unfit:
        """The words of the server about a token, or why it does not count.

        Raises:
            CannotAsk: it does not answer now.
        """
        from upstreams.fetch.model import FetchFailed

        asked = self.settings.introspection
        secret = "" if asked.client_secret is None else asked.client_secret.reveal()
        basic = b64encode(f"{quote_plus(asked.client_id)}:{quote_plus(secret)}".encode()).decode()
        with trio.move_on_after(ASK_S):
            endpoint = (await self._discover()).introspection_endpoint
            if not endpoint:
                self._metadata = None
                raise CannotAsk(f"{self.settings.issuer} names no introspection endpoint")
            fields = [("token", token), ("token_type_hint", "access_token")]
            allowed, headers = addresses_of(self.settings.issuer), {"authorization": f"Basic {basic}"}
            try:
                answer = await self._fetch.post_form(endpoint, fields, allowed, headers=headers)
            except FetchFailed as error:
                raise CannotAsk(error.text) from None
            claims = answer.json_object() if answer.status == 200 else None
            if claims is None:
                raise CannotAsk(f"{self.settings.issuer} answered {answer.status} to the question about a token")
            if claims.get("active") is not True:
                return Unfit("its issuer says that it does not hold: it has ended, was taken back, or is of another")
            if claims.get("iss", self.settings.issuer) != self.settings.issuer or "cnf" in claims:
                return Unfit("its issuer says that it is of another issuer, or bound to a key")
            return verdict_of(claims, self.settings, self._wall(), is_asked=True)
        raise CannotAsk(f"{self.settings.issuer} does not answer in time")
