"""The content of the files: plain facts, and beside them what is secret, sealed. Pure but for the seal.

The sealed part holds a digest of the plain one, so that nobody can change where a token is sent, and keep the token.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from config.setting_declarations import Secret, hide, reveal
from hub.link.sealing import join_apart
from upstreams.oauth.model import AuthorizationServer, ClientFacts, Grant, GrantKey, OAuthClient
from upstreams.oauth.store.key_seal import KeySeal, NotSealedHere

VERSION: Final = 1


class UnreadableRecord(Exception):
    """A file that is damaged, or sealed with another key."""


class OtherVersion(Exception):
    """A file of another version of hubd, which is to be left alone."""


class GrantFile(Struct, frozen=True, kw_only=True):
    """A file below `grants`."""

    version: int = VERSION
    key: str = ""
    """The name of the key that sealed it."""
    issuer: str
    resource: str
    upstream: str
    principal: str
    generation: int
    obtained_at: float
    expires_at: float | None
    signed_in_at: float
    scope: str
    asked_scope: str
    note: str
    sign_in_needed: bool
    sends_resource: bool
    origin: str
    server: AuthorizationServer
    client: ClientFacts
    renewable: bool
    """There is a refresh token."""
    sealed: str = ""

    @property
    def grant_key(self) -> GrantKey:
        """The key of the grant, which is not that of the seal."""
        return GrantKey(self.issuer, self.resource, self.upstream, self.principal)


class ClientFile(Struct, frozen=True, kw_only=True):
    """A file below `clients`."""

    version: int = VERSION
    key: str = ""
    upstream: str
    client: ClientFacts
    sealed: str = ""


class _Sealed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    of: str
    """Digest of the plain part."""
    access_token: Secret = Secret("")
    refresh_token: Secret | None = None
    id_token: Secret | None = None
    client_secret: Secret | None = None


class _Version(Struct, frozen=True):
    version: int


File = TypeVar("File", GrantFile, ClientFile)
_GRANT_FACTS: Final = {*Grant.__struct_fields__} & {*GrantFile.__struct_fields__} - {"key", "client"}
"""Members that a grant and its file have in common."""
_TOKENS: Final = ("access_token", "refresh_token", "id_token")


def id_of(*parts: str) -> str:
    """The name of the file for what is known by `parts`."""
    return sha256(join_apart(parts)).hexdigest()[:32]


def encode_grant(grant: Grant, seal: KeySeal) -> bytes:
    """The content of the file of `grant`. Raises KeyLocked."""
    client, renewable = _facts(grant.client), grant.refresh_token is not None
    plain = GrantFile(**_copy(grant, _GRANT_FACTS), **asdict(grant.key), client=client, renewable=renewable)
    return _encode(plain, _Sealed(of=_digest(plain), **_copy(grant, _TOKENS), client_secret=grant.client.secret), seal)


def encode_client(upstream: str, client: OAuthClient, seal: KeySeal) -> bytes:
    """The content of the file of the hub's registration for `upstream`. Raises KeyLocked."""
    plain = ClientFile(upstream=upstream, client=_facts(client))
    return _encode(plain, _Sealed(of=_digest(plain), client_secret=client.secret), seal)


def read_plain(data: bytes, type: type[File]) -> File:
    """The plain part of a file. Raises UnreadableRecord, OtherVersion: as their names say."""
    try:
        if msgspec.json.decode(data, type=_Version).version != VERSION:
            raise OtherVersion
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableRecord from None


def open_grant(plain: GrantFile, seal: KeySeal) -> Grant:
    """The grant of a file. Raises UnreadableRecord: it was sealed with another key, or changed; KeyLocked: the key
    cannot be had now."""
    secrets = _open(plain, seal)
    return Grant(
        **_copy(plain, _GRANT_FACTS),
        **_copy(secrets, _TOKENS),
        key=plain.grant_key,
        client=_client(plain.client, secrets.client_secret),
    )


def open_client(plain: ClientFile, seal: KeySeal) -> OAuthClient:
    """The client of a file. Raises as `open_grant`."""
    return _client(plain.client, _open(plain, seal).client_secret)


def _encode(plain: File, secrets: _Sealed, seal: KeySeal) -> bytes:
    file = replace(plain, key=seal.key_name, sealed=seal.seal(msgspec.json.encode(secrets, enc_hook=reveal)))
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def _open(plain: GrantFile | ClientFile, seal: KeySeal) -> _Sealed:
    try:
        secrets = msgspec.json.decode(seal.open(plain.sealed), type=_Sealed, dec_hook=hide)
    except (NotSealedHere, msgspec.DecodeError):
        raise UnreadableRecord from None
    if secrets.of != _digest(plain):
        raise UnreadableRecord
    return secrets


def _digest(plain: GrantFile | ClientFile) -> str:
    return sha256(msgspec.json.encode(replace(plain, key="", sealed=""))).hexdigest()


def _facts(client: OAuthClient) -> ClientFacts:
    return ClientFacts(**_copy(client, ClientFacts.__struct_fields__))


def _client(facts: ClientFacts, secret: Secret | None) -> OAuthClient:
    return OAuthClient(**asdict(facts), secret=secret)


def _copy(struct: Struct, members: Iterable[str]) -> dict[str, Any]:
    return {member: getattr(struct, member) for member in members}
