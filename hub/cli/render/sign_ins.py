"""Sign-ins as blocks of a screen: all of them (`hubd auth --status`), and the notes on one server. Pure."""

from collections.abc import Sequence
from typing import Final

from hub.cli.render.blocks import Block, Cell, Line, Table, paint
from hub.cli.render.words import duration
from hub.control.answers import UpstreamRow
from hub.control.sign_in_messages import SignInAccount

STATES: Final = {
    "good": "signed in",
    "needed": "sign-in needed",
    "none": "sign-in needed",
    "asking": "signing in",
    "renewing": "renewing",
    "waiting": "renewal waits",
}
_STYLES: Final = {"good": "good", "needed": "bad", "none": "bad", "waiting": "warning"}
_HEADS: Final = ("UPSTREAM", "ACCOUNT", "STATE", "AT", "UNTIL", "RENEWED", "SCOPES")
_DROP: Final = ("SCOPES", "RENEWED", "ACCOUNT")
KEYS: Final = {
    "keys": "a file beside what it seals, so whoever can read your files has both",
    "file": "a file beside what it seals, so whoever can read your files has both",
    "keyring": "the keyring",
    "sealing_key": "`sealing_key` of the configuration",
    "credential": "a credential of the service manager",
}


def accounts_blocks(accounts: Sequence[SignInAccount], name: str | None = None) -> list[Block]:
    """The accounts of a hub, or those at one server, each with its note; and where the key is that seals them."""
    if not accounts:
        if name:
            return [f"nobody is signed in at {name}; `hubd auth {name}` does it, if it wants that"]
        return ["nobody is signed in anywhere; `hubd status` shows which servers want it, `hubd auth NAME` does it"]
    found = sorted(accounts, key=lambda each: (each.upstream, each.principal))
    rows, notes = [_row(each) for each in found], [_notes(each) for each in found]
    table = Table(_HEADS, rows, shorten=("UPSTREAM", "AT", "SCOPES"), drop=_DROP, notes=notes)
    sources = dict.fromkeys(each.key_source for each in found if each.key_source)
    keys = " and ".join(KEYS.get(source, source) for source in sources)
    return [table, *([paint(f"sealed by a key in {keys}", "dim")] if keys else [])]


def _row(account: SignInAccount) -> Sequence[Cell]:
    state = STATES.get(account.state, account.state)
    return (
        paint(account.upstream or "(identity provider)", "name"),
        "shared" if account.account == "shared" else account.principal,
        paint(state, _STYLES.get(account.state, "dim")),
        account.issuer or None,
        _until(account.expires_s),
        ("yes" if account.renewable else "no") if account.issuer else None,
        account.scope or None,
    )


def _until(expires_s: float | None) -> str | None:
    if expires_s is None:
        return None
    return f"in {duration(expires_s)}" if expires_s > 0 else "over"


def _notes(account: SignInAccount) -> list[Line]:
    found: list[Line] = [account.note] if account.note else []
    if account.state in ("needed", "none") and "hubd auth" not in account.note:
        found.append(f"sign in: hubd auth {account.upstream or '--idp'}")
    return found


def sign_in_notes(upstream: UpstreamRow) -> list[Line]:
    """Until when somebody is signed in at a server, and what is wrong with that, for `hubd status`."""
    facts = upstream.account
    if facts is None:
        return []
    notes: list[Line] = []
    if facts.note and facts.note not in (upstream.last_error or ""):
        notes.append(paint(f"sign-in: {facts.note}", "warning"))
    if facts.issuer and upstream.state != "unauthorized":
        lasts = "" if facts.expires_s is None else f" for {duration(max(0.0, facts.expires_s))}"
        then = ", renewed without you" if facts.renewable else f", then `{facts.command}` again" if lasts else ""
        notes.append(paint(f"signed in at {facts.issuer}{lasts}{then}", "dim"))
    return notes
