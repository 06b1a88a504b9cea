"""One authorization server whose tokens open the hub: its metadata, its keys (RFC 7517) and signatures by them, and
what it says when it is asked. joserfc is imported when the first keys are read: a hub without issuers never does.

Keys are read at the start, every `KEYS_S` seconds, and when none of them has signed a token, at most once in
`UNKNOWN_S`: an issuer may have others by now, also under the same names. While they cannot be read those before count,
for `KEEP_S`; after that nobody can say what a token is worth.
"""

import logging
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlsplit

import msgspec
import trio
from msgspec import Struct, structs

from config.loading.parse_addresses import is_loopback
from config.security_settings import AccessIssuer
from hub.downstream.access.claims import TokenVerdict, verdict_of
from hub.downstream.access.read_unverified_jwt import Jwt, Unfit, Unsigned
from upstreams.fetch.terms_and_answers import Allowed, FetchFailed

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher

log = logging.getLogger("hubd")

MAX_KEYS: Final = 64
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
"""Larger ones would take long to verify with."""
MAX_SIGNATURE: Final = 1024
ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The algorithms that can be accepted, with the type and the curve of their keys. No other is ever tried."""
KEYS_S: Final = 900.0
UNKNOWN_S: Final = 60.0
KEEP_S: Final = 86400.0
READ_S: Final = 5.0
ASK_S: Final = 2.0


class CannotAsk(Exception):
    """An issuer cannot be asked now, or says nothing that helps. The text says why, without secrets."""


def addresses_of(issuer: str) -> Allowed:
    """Who may be asked for this issuer, beside public addresses: the host that the operator wrote."""
    parts = urlsplit(issuer)
    host = (parts.hostname or "").lower()
    return Allowed(frozenset({host}), parts.scheme == "http" and is_loopback(host))


async def read_metadata(fetch: "Fetcher", issuer: str) -> dict[str, Any]:
    """The metadata of `issuer`. Raises CannotAsk: there are none to be had now."""
    from upstreams.oauth.discovery.peer_urls import address_of, server_places
    from upstreams.oauth.model import same_issuer

    address = address_of(issuer)
    for place in () if address is None else server_places(address):
        if (document := await read_json(fetch, place, addresses_of(issuer))) is None:
            continue
        if not isinstance(named := document.get("issuer"), str) or not same_issuer(named, issuer):
            raise CannotAsk(f"{issuer} is described as another issuer")
        return document
    raise CannotAsk(f"{issuer} has no metadata")


async def read_json(fetch: "Fetcher", url: str, allowed: Allowed) -> dict[str, Any] | None:
    """The JSON object at `url`; None: there is something else. Raises CannotAsk: the server does not answer now."""
    try:
        answer = await fetch.get(url, allowed)
    except FetchFailed as error:
        raise CannotAsk(error.text) from None
    if answer.status == 429 or answer.status >= 500:
        raise CannotAsk(f"{urlsplit(url).netloc} answered {answer.status}")
    return answer.json_object() if answer.status == 200 else None


_B64: Final = re.compile(r"[A-Za-z0-9_-]+")


class SigningKey(Struct, frozen=True):
    """One public key."""

    key_id: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    """The only algorithm that it is for; None: each of its type."""
    print: str
    """The text that tells it from all others."""
    key: Any
    """As joserfc has it."""

    def fits(self, algorithm: str) -> bool:
        """True if a signature by this key can be of that algorithm."""
        own = "EdDSA" if self.algorithm == "Ed25519" else self.algorithm
        return own in (None, algorithm) and ALGORITHMS.get(algorithm) in ((self.kind, self.curve), (self.kind, None))


def read_keys(document: dict[str, Any]) -> tuple[SigningKey, ...]:
    """The keys of a set that signatures can be verified with; others are passed over."""
    rows = document.get("keys")
    found = (_read_key(row) for row in (rows[:MAX_KEYS] if isinstance(rows, list) else ()) if isinstance(row, dict))
    return tuple(key for key in found if key is not None)


def _read_key(row: dict[str, Any]) -> SigningKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    kind, key_id, use, operations = row.get("kty"), row.get("kid"), row.get("use"), row.get("key_ops")
    members = {"EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "RSA": ("n", "e")}.get(str(kind), ())
    texts = {name: row.get(name) for name in members}
    if not members or not all(isinstance(text, str) and _B64.fullmatch(text) for text in texts.values()):
        return None
    if use not in (None, "sig") or not isinstance(key_id, str | None):
        return None
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    algorithm, curve = row.get("alg"), texts.get("crv") if kind != "RSA" else None
    bits = len(str(texts.get("n", ""))) * 6
    is_sized = kind != "RSA" or (MIN_RSA_BITS <= bits <= MAX_RSA_BITS + 64 and len(str(texts["e"])) <= 8)
    if not is_sized or not isinstance(algorithm, str | None):
        return None
    types: dict[str, Any] = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}
    plain = {"kty": kind, **texts}
    try:
        key = types[str(kind)].import_key(plain)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    print = sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()
    return SigningKey(key_id, str(kind), curve, algorithm, print, key)


def key_for(token: Jwt, keys: tuple[SigningKey, ...]) -> SigningKey | None:
    """The key that a token names; of a token that names none the only one that fits. None: there is none."""
    named = [key for key in keys if token.key_id in (None, key.key_id)]
    fitting = [key for key in named if key.fits(token.algorithm)]
    return fitting[0] if len(fitting) == 1 else None


def is_signed(token: Jwt, key: SigningKey) -> bool:
    """True if `key` has signed the token."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    if len(token.signature) > MAX_SIGNATURE or not key.fits(token.algorithm):
        return False
    try:
        return JWSRegistry.algorithms[token.algorithm].verify(token.signed, token.signature, key.key)
    except (JoseError, ValueError, TypeError):
        return False


@dataclass(eq=False, repr=False)
class Issuer:
    """One configured issuer. `_on_keys` is called with the keys that count once others do; `_wall`: the time of day."""

    settings: AccessIssuer
    _fetch: "Fetcher"
    _wall: Callable[[], float]
    _on_keys: Callable[[], None]
    keys: tuple[SigningKey, ...] = ()
    _metadata: dict[str, Any] | None = None
    _good_at: float = -inf
    _tried_at: float = -inf
    _reading: trio.Event | None = None
    problem: str = ""
    """The reason why its keys could not be read the last time; "" if they could."""

    @property
    def has_keys(self) -> bool:
        """True if tokens can be judged by keys that are not too old."""
        return bool(self.keys) and trio.current_time() < self._good_at + KEEP_S

    def judge(self, token: Jwt) -> TokenVerdict:
        """The content of the token. Raises Unfit: it does not count."""
        if token.algorithm not in self.settings.algorithms:
            raise Unfit("the algorithm of its signature is not one of `algorithms` of this issuer")
        if (key := key_for(token, self.keys)) is None:
            text = "its issuer shows no key that it could be signed with, or several that it does not tell apart"
            raise Unsigned(text)
        if not is_signed(token, key):
            raise Unsigned("its issuer has not signed it: the signature is another's, or it was changed")
        return structs.replace(verdict_of(token.claims, self.settings, self._wall()), key=key.print)

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
        url = await self._discover("jwks_uri")
        if not url and self.can_be_asked:
            self.problem = ""  # its tokens cannot be read, and need not be
            return
        document = await read_json(self._fetch, url, addresses_of(self.settings.issuer)) if url else None
        # joserfc, and what it stands on, is imported with the first key: no host is to wait for that
        keys = () if document is None else await trio.to_thread.run_sync(read_keys, document, abandon_on_cancel=True)
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

    async def _discover(self, name: str) -> str:
        """The URL of this name in its metadata; "": there is none that can be used."""
        if self._metadata is None:
            self._metadata = await read_metadata(self._fetch, self.settings.issuer)
        value = self._metadata.get(name)
        return value if isinstance(value, str) and len(value) <= 2048 else ""

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

    async def ask(self, token: str) -> TokenVerdict:
        """The words of the server about a token. Raises CannotAsk: it does not answer now; Unfit: the token does not
        count."""
        asked = self.settings.introspection
        secret = "" if asked.client_secret is None else asked.client_secret.reveal()
        basic = b64encode(f"{quote_plus(asked.client_id)}:{quote_plus(secret)}".encode()).decode()
        with trio.move_on_after(ASK_S):
            if not (endpoint := await self._discover("introspection_endpoint")):
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
                raise Unfit("its issuer says that it does not hold: it has ended, was taken back, or is of another")
            if claims.get("iss", self.settings.issuer) != self.settings.issuer or "cnf" in claims:
                raise Unfit("its issuer says that it is of another issuer, or bound to a key")
            return verdict_of(claims, self.settings, self._wall(), is_asked=True)
        raise CannotAsk(f"{self.settings.issuer} does not answer in time")
