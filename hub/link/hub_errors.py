"""Failures of the hub's own making, and the reply that a host sees for one.

An upstream's error is a `Failure`, a value that is passed on. A failure of the hub's own is raised as a `HubError`.
"""

from enum import Enum
from typing import Self, TypeVar

from msgspec import Raw

from hub.wire.jsonrpc import Failure, Reply, Result, encode, raw
from hub.wire.vocabulary import (
    DRAINING,
    FOR_PEOPLE,
    HUB_FAILURE,
    INTERNAL_ERROR,
    TOOLS_CALL,
    UPSTREAM_LOST,
    UPSTREAM_UNAVAILABLE,
)


class Executed(Enum):
    """Evidence that an upstream acted on a call that failed."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class HubError(Exception):
    """A failure of the hub's own making. The text is one sentence a person can act on, without secrets or paths."""

    kind = "internal"
    executed = Executed.UNKNOWN
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        upstream: str | None = None,
        executed: Executed | None = None,
        retry_after_ms: int | None = None,
        for_people: str = "",
    ) -> None:
        super().__init__(message)
        self.for_people = for_people
        """The sentence for somebody at a terminal, where the text speaks to a model; "": the text does for both."""
        self.upstream = upstream
        self.retry_after_ms = retry_after_ms
        if executed is not None:
            self.executed = executed

    @property
    def for_log(self) -> str:
        """The sentence for logs, without addresses that are for one person only."""
        return self.for_people or str(self)

    def facts(self) -> dict[str, object]:
        """The object that tells hub-made failures from an upstream's own."""
        facts = {"hub": self.kind, "executed": self.executed.value, "retryable": self.retryable}
        more = {"upstream": self.upstream, "retryAfterMs": self.retry_after_ms, FOR_PEOPLE: self.for_people or None}
        return facts | {name: fact for name, fact in more.items() if fact is not None}


AnyError = TypeVar("AnyError", bound=HubError)


def without_frames(error: AnyError) -> AnyError:
    """A copy of `error` without the frames it has passed, to be kept or raised later.

    Those hold all that was local to them, such as the bodies of requests, for as long as the error is there; and if one
    of them holds the error, until the next full collection, which an idle hub has none of.
    """
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


def with_evidence(error: AnyError, executed: Executed) -> AnyError:
    """A copy of `error` for a call of which more is known than for the request that failed."""
    copy = without_frames(error)
    copy.executed = executed
    return copy


class UpstreamUnavailable(HubError):
    """Not started, restarting, disabled or gone: nothing was sent."""

    kind = UPSTREAM_UNAVAILABLE
    executed = Executed.NO
    retryable = True


class UpstreamLoop(UpstreamUnavailable):
    """The upstream leads back to this hub."""

    kind = "loop"
    retryable = False


class UpstreamUnresolved(UpstreamUnavailable):
    """A reference in its configuration cannot be read now: a secret is not set, or the keyring is locked."""


class UpstreamConfined(UpstreamUnavailable):
    """The sandbox that its configuration wants cannot be had on this machine."""


class UpstreamLost(HubError):
    """The process or stream died while the call was with it."""

    kind = UPSTREAM_LOST


class Draining(UpstreamLost):
    """The upstream was stopped while the call was with it, for its configuration says so; or the hub was."""

    kind = DRAINING


class DeadlineExceeded(HubError):
    """No answer within the idle or total time."""

    kind = "upstream_timeout"


class UpstreamProtocolError(HubError):
    """The upstream answered nonsense for this call."""

    kind = "upstream_protocol"


class UpstreamVersionError(HubError):
    """No protocol revision in common."""

    kind = "upstream_version"
    executed = Executed.NO


class UpstreamUnauthorized(HubError):
    """The upstream wants credentials the hub does not have."""

    kind = "upstream_auth"
    executed = Executed.NO

    @property
    def asks_person(self) -> bool:
        """True if somebody who signs in would help, and the call could then be made anew: it is not for the moment
        only, the account is not one that may not, and nothing was done."""
        is_lasting = self.retry_after_ms is None
        return self.kind == UpstreamUnauthorized.kind and is_lasting and self.executed is Executed.NO


class UpstreamDenied(UpstreamUnauthorized):
    """The upstream knows who asks, and refuses (403)."""

    kind = "denied"


class CallDenied(HubError):
    """A rule of the configuration, or a hook, forbids the call; nothing was sent."""

    kind = "denied"
    executed = Executed.NO

    @classmethod
    def because(cls, reason: str, upstream: str) -> Self:
        """The denial of a call for a reason, a clause; "": there is none but the rule."""
        reason = reason.rstrip(".") or "a rule of this hub denies it"
        return cls(f"Not run: {reason}. Do not try again with the same arguments.", upstream=upstream)


class ApprovalRequired(HubError):
    """A person has to agree first, or to look at what has changed; nothing was sent."""

    kind = "approval_required"
    executed = Executed.NO
    retryable = True
    request = ""
    """The id of the request that a person is to decide on; "": there is none."""

    def facts(self) -> dict[str, object]:
        return super().facts() | ({"request": self.request} if self.request else {})


class ApprovalDeclined(HubError):
    """A person has said no; nothing was sent."""

    kind = "approval_declined"
    executed = Executed.NO


class HookUnanswered(HubError):
    """A hook gave no answer, so the call is denied, or its result withheld."""

    kind = "hook_failed"
    executed = Executed.NO


class InvalidArguments(HubError):
    """The arguments of a call do not fit the input schema of its tool; nothing was sent."""

    kind = "invalid_arguments"
    executed = Executed.NO


class ResultTooLarge(HubError):
    """The answer arrived and was refused for its size."""

    kind = "result_too_large"
    executed = Executed.YES


class Overloaded(HubError):
    """A queue or limit is full; nothing was sent."""

    kind = "overloaded"
    executed = Executed.NO
    retryable = True


class AuditUnavailable(HubError):
    """The call has to be written down first, and that cannot be done now; nothing was sent."""

    kind = "audit_unavailable"
    executed = Executed.NO
    retryable = True


class Stopping(Overloaded):
    """The hub takes on no more requests, since it is about to end; nothing was sent."""

    kind = DRAINING


def failure_from(error: HubError, method: str, ref: str = "") -> Reply:
    """The reply for a failure of the hub's own: to `tools/call` a result that the model can act on, else an error.
    `ref`: the operation that failed, as people and records write its number."""
    facts = error.facts() | ({"ref": ref} if ref else {})
    if method == TOOLS_CALL:
        content = [{"type": "text", "text": str(error)}]
        return Result(Raw(encode({"content": content, "isError": True, "_meta": {HUB_FAILURE: facts}})))
    return Failure(INTERNAL_ERROR, str(error), raw(facts))
