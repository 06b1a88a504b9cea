"""The sign-ins that are kept, as rows for people, without asking for the key."""

from msgspec import Struct

from upstreams.oauth.credential import UpstreamCredential
from upstreams.oauth.store.grant_store import GrantStore


class AccountRow(Struct, frozen=True, kw_only=True):
    """One account, for `hubd auth --status`. Times are wall time."""

    upstream: str
    """"": the company's identity provider."""
    principal: str
    state: str
    issuer: str
    expires_at: float | None
    renewable: bool
    scope: str
    note: str
    key_source: str
    """The place of the key that seals it."""


def rows_of_store(store: GrantStore, wall: float) -> dict[tuple[str, str], AccountRow]:
    """The latest sign-in of each upstream and principal. Blocks for the disk."""
    latest: dict[tuple[str, str], tuple[bool, float]] = {}
    rows: dict[tuple[str, str], AccountRow] = {}
    for each in store.grants():
        file = each.file
        key, age = (file.upstream, file.principal), (each.is_readable, file.signed_in_at)
        if key in latest and latest[key] > age:
            continue
        latest[key] = age
        lasts = file.expires_at is None or file.expires_at > wall
        is_good = each.is_readable and not file.sign_in_needed and (file.renewable or lasts)
        rows[key] = AccountRow(
            upstream=file.upstream,
            principal=file.principal,
            state="good" if is_good else "needed",
            issuer=file.issuer,
            expires_at=file.expires_at,
            renewable=file.renewable and not file.sign_in_needed,
            scope=file.scope,
            note=file.note if each.is_readable else "It cannot be opened (another key).",
            key_source=file.key.partition(":")[0],
        )
    return rows


def live_row(credential: UpstreamCredential, key_source: str) -> AccountRow:
    """The row of a credential that sessions use. `key_source`: where the key is that seals it."""
    grant = credential.grant
    return AccountRow(
        upstream=credential.account.upstream,
        principal=credential.account.principal,
        state=credential.state,
        issuer=grant.key.issuer if grant else "",
        expires_at=grant.expires_at if grant else None,
        renewable=credential.is_renewable,
        scope=grant.scope if grant else "",
        note=credential.problem,
        key_source=key_source,
    )
