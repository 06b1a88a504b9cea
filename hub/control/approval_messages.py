"""Messages about approvals between the hub and the command line."""

from msgspec import Struct


class AskedCall(Struct, frozen=True, kw_only=True):
    """What calls a yes is for."""

    id: str
    host: str
    name: str
    """The tool, prompt or resource, as the host knows it."""
    server: str
    rule: str
    principal: str = ""


class WaitingRequest(AskedCall, frozen=True, kw_only=True):
    """A call that a person is to decide on."""

    arguments: str
    """On one line, shortened, without secrets."""
    age_s: float
    left_s: float
    """Seconds for which it can be decided; if it is decided, for which the yes is good."""
    waiting: int = 0
    """Calls that wait."""
    decision: str = ""
    """`approved` or `denied`: the next equal call is told; "": nobody has decided."""


class GivenApproval(AskedCall, frozen=True, kw_only=True):
    """A yes of a person for longer than a call."""

    lasts: str
    """`session`, `hour` or `always`."""
    left_s: float | None = None
    """None: until the conversation ends."""


class ApprovalList(Struct, frozen=True):
    """All requests and approvals."""

    requests: tuple[WaitingRequest, ...] = ()
    approvals: tuple[GivenApproval, ...] = ()


class ShownRequest(Struct, frozen=True):
    """One request, with all that a person may want to know."""

    id: str
    text: str
    """The question, as hosts put it."""
    arguments: str
    """All arguments as JSON, without secrets."""
    offers: tuple[str, ...] = ()
    """Times that may be agreed to: `once`, `session` or `hour`, `always`."""


class DecidedRequest(Struct, frozen=True):
    """A request that a person has decided on."""

    id: str
    host: str
    name: str
    lasts: str = ""
    """`once`, `session`, `hour`, `always`; "": it was denied."""
    waiting: int = 0
    """Calls that waited for it."""
