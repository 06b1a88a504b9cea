"""Sign-ins of people at upstreams, as the control socket tells of them: its answers. Pure.

A sign-in is one endless request: its first `SignInStep` says what to open, or why nothing was begun; the next
one has the outcome. Whoever asked may leave at any time; the sign-in stands as it is.
"""

from msgspec import UNSET, Struct, UnsetType


class SignInOutcome(Struct, frozen=True, kw_only=True):
    """The end of a sign-in."""

    upstream: str = ""
    principal: str = ""
    state: str = ""
    """`signed_in`, `denied`, `failed` or `timed_out`."""
    text: str = ""
    """A sentence for a person."""
    issuer: str = ""
    scope: str = ""
    until: float | None = None
    """Wall time at which the access token ends; None: nobody knows."""
    renewable: bool = False


class SignInStep(Struct, frozen=True, kw_only=True):
    """The next step of a sign-in, the reason why a person has to agree first, or the end."""

    unusual: str = ""
    """The reason why a person has to agree first, in sentences; then nothing was begun, and nothing follows."""
    wants_token: str = ""
    """The sentence that there is no sign-in, and a token is wanted; then nothing was begun, and nothing follows."""
    issuer: str = ""
    """The authorization server."""
    scope: str = ""
    """The scopes that are asked for."""
    server_url: str = ""
    """The URL of the upstream."""
    url: str = ""
    """Opened on this machine it leads on to the authorization server; "": the hub could not tell whose browser it
    is."""
    authorization_url: str = ""
    """Opened anywhere; with a `code` on this machine."""
    code: str = ""
    """The code that the page at `authorization_url` asks for; "": none."""
    port: int = 0
    """The port of this machine that the browser comes back to; 0: it comes back by a proxy."""
    expires_s: float = 0.0
    outcome: SignInOutcome | UnsetType = UNSET


class SignInAccount(Struct, frozen=True, kw_only=True):
    """One account at an upstream, kept or in use."""

    upstream: str = ""
    """"": the company's identity provider."""
    principal: str = ""
    account: str = "shared"
    """`shared`: all hosts act as this account; `each`: every principal has its own."""
    state: str = ""
    """`none`, `needed`, `asking`, `good`, `renewing` or `waiting`."""
    issuer: str = ""
    expires_s: float | None = None
    """Seconds that the access token lives; None: nobody knows."""
    renewable: bool = False
    """It is renewed without a person."""
    scope: str = ""
    note: str = ""
    """The note for a person, for instance that a renewal failed."""
    key_source: str = ""
    """The place of the key that seals what is kept."""


class SignInAccounts(Struct, frozen=True):
    """The accounts of `hubd auth --status`."""

    accounts: tuple[SignInAccount, ...] = ()


class SignInTrial(Struct, frozen=True):
    """The prospects of a sign-in that an upstream waits for."""

    upstream: str = ""
    problem: str = ""
    """The reason why it cannot begin, and what to do; "": it can."""
    is_passing: bool = False
    """The problem may go away by itself."""
    wants_token: bool = False
    """The problem is that there is no sign-in, and a token is wanted."""


class SignInTrials(Struct, frozen=True):
    """Trials of sign-ins at the upstreams that wait for one."""

    trials: tuple[SignInTrial, ...] = ()


class SignedOutAccount(Struct, frozen=True, kw_only=True):
    """The outcome for one account."""

    upstream: str = ""
    principal: str = ""
    was_signed_in: bool = False
    revoked: bool | None = None
    """The authorization server has ended the tokens; None: it was not asked."""
    why_not: str = ""
    forgot_client: bool = False


class SignedOut(Struct, frozen=True):
    """The outcome of a logout."""

    accounts: tuple[SignedOutAccount, ...] = ()
