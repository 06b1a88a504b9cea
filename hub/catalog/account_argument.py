"""The argument of a tool that says which of several accounts at its server serves the call. Pure.

It stands in the schema that hosts are shown, unless a profile, a project or the configuration has decided, and is taken
off before the call. Where it was decided, a host that names an account is refused: what its profile does not give it
cannot have.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct, structs

from hub.link.hub_errors import Executed, HubError
from hub.wire.jsonrpc import EMPTY, open_object, peek_object, peek_str, raw

NAMES: Final = ("account", "hub_account")
"""What the argument is called; the second where a tool has the first of its own."""


class AccountRefused(HubError):
    """A host named an account that it may not choose, or that there is not; nothing was sent on."""

    kind = "account"
    executed = Executed.NO


class AccountArgument(Struct, frozen=True):
    """The argument of one tool."""

    name: str
    accounts: tuple[str, ...]
    schema: Raw | None
    """The input schema without it."""
    decided_by: str = ""
    """Who has chosen in place of the host; "": the host may."""

    def decide(self, by: str) -> "AccountArgument":
        """The same where `by` has chosen the account."""
        return structs.replace(self, decided_by=by)

    def take(self, arguments: Raw | None) -> tuple[str, Raw | None]:
        """The account that a host names, "": none, and its arguments without that.
        Raises: AccountRefused; RemoteProtocolError, -32602, if those are no JSON object."""
        sent = {} if arguments is None else open_object(arguments)
        if self.name not in sent:
            return "", arguments
        if self.decided_by:
            raise AccountRefused(f'"{self.name}" is fixed by {self.decided_by}; leave it out')
        if (account := peek_str(sent.pop(self.name))) not in self.accounts:
            raise AccountRefused(f'"{self.name}" names no account there is; there are: {", ".join(self.accounts)}')
        return account, raw(sent)


def argument_of(schema: Raw | None, accounts: Sequence[str]) -> AccountArgument | None:
    """The argument for a tool with this input schema; None: there can be none, or the tool has
    arguments of both names."""
    whole = EMPTY if schema is None else schema
    properties = peek_object(whole).get("properties", EMPTY)
    if any(not peek_object(each) and bytes(each).strip() != b"{}" for each in (whole, properties)):
        return None  # it is no object, or has more members than the hub looks at
    described, text = peek_object(properties), bytes(whole)
    # One of that name may also be described elsewhere in the schema.
    free = [name for name in NAMES if name not in described and f'"{name}"'.encode() not in text]
    return AccountArgument(free[0], tuple(accounts), schema) if free else None


def with_argument(argument: AccountArgument) -> Raw:
    """The input schema with the argument."""
    members = {"type": raw("object"), **peek_object(argument.schema or EMPTY)}
    which = f"Which account to use; without it {argument.accounts[0]}"
    added = {argument.name: {"type": "string", "enum": argument.accounts, "description": which}}
    return raw({**members, "properties": {**peek_object(members.get("properties")), **added}})
