"""Questions of upstreams, whether a host can be asked them, and the upstream's reply when nobody answers."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw, Struct

from hub.wire import mcp
from hub.wire.capabilities import FORM, URL, elicitation_modes
from hub.wire.jsonrpc import EMPTY, Failure, Reply, Result, peek_object, peek_str, raw
from hub.wire.questions.older_forms_and_sampling import uses_tools
from hub.wire.total_item_limit import SMALL_BYTES, has_too_many_items

MAX_ITEMS: Final = 10_000
"""Items on all levels of sampling messages, a form or an answer, if large; each is read, which takes 40 ms in all."""
SAMPLING_REJECTED: Final = -1
"""The error code for a user who rejects a sampling request (the example in the specification)."""
Missing = dict[str, dict[str, dict[str, object]]]
"""Capabilities that a host did not declare, as `requiredCapabilities` has them."""


class Question(Struct, frozen=True):
    """A request of an upstream to the host of a running operation: sampling, elicitation or roots (`mcp.QUESTIONS`)."""

    method: str
    params: dict[str, Raw]
    """As the upstream wrote them, `_meta` included."""
    upstream: str
    """The upstream's name in the configuration, which people are shown; "": the hub itself asks."""
    version: str
    """The upstream's revision, in which the answer must be written."""
    progress: Callable[[dict[str, Raw]], None] | None = None
    """Takes the host's progress, params without a token. Only set if `params` had a progress token."""


class QuestionRefusal(Exception):
    """A question that is not asked, or whose answer cannot be passed on. `failure` is for the upstream."""

    def __init__(self, message: str, code: int = mcp.INVALID_PARAMS) -> None:
        super().__init__(message)
        self.failure = Failure(code, message)


def check_capabilities(question: Question, capabilities: Mapping[str, Raw]) -> None:
    """Refuse a question that a host with `capabilities` cannot be asked. Raises QuestionRefusal: -32601, the host lacks
    the capability; -32602, it lacks this mode, or tools in sampling, or the messages have too many items."""
    method, params = question.method, question.params
    needed = {mcp.SAMPLE: "sampling", mcp.ELICIT: "elicitation", mcp.LIST_ROOTS: "roots"}.get(method)
    if needed not in capabilities:
        raise QuestionRefusal(f"The host of this call does not answer {method}", mcp.METHOD_NOT_FOUND)
    if method == mcp.ELICIT and (mode := mode_of(question)) not in elicitation_modes(capabilities):
        raise QuestionRefusal(f"The host of this call knows no elicitation of mode {mode}")
    if method == mcp.SAMPLE and is_too_long(params.get("messages", EMPTY)):
        raise QuestionRefusal(f"The messages to sample from have more than {MAX_ITEMS} items")
    knows_tools = "tools" in peek_object(capabilities.get("sampling"))
    if method == mcp.SAMPLE and uses_tools(params) and not knows_tools:
        raise QuestionRefusal("The host of this call knows no tools in sampling")


def with_missing(known: Missing | None, question: Question, capabilities: Mapping[str, Raw]) -> Missing | None:
    """`known`, and the capabilities that a host with `capabilities` lacks for `question`; None: none is missing."""
    if not (more := missing_capabilities(question, capabilities)):
        return known
    known = known or {}
    return known | {name: {**known.get(name, {}), **parts} for name, parts in more.items()}


def missing_capabilities(question: Question, capabilities: Mapping[str, Raw]) -> Missing:
    """The capabilities that a host with `capabilities` would have to declare in order to be asked `question`, as
    `requiredCapabilities` has them; empty: it lacks none, or none would help."""
    if question.method == mcp.LIST_ROOTS:
        return {} if "roots" in capabilities else {"roots": {}}
    if question.method == mcp.ELICIT:
        mode = mode_of(question)
        return {} if mode not in (FORM, URL) or mode in elicitation_modes(capabilities) else {"elicitation": {mode: {}}}
    if question.method != mcp.SAMPLE:
        return {}
    if uses_tools(question.params):
        return {} if "tools" in peek_object(capabilities.get("sampling")) else {"sampling": {"tools": {}}}
    return {} if "sampling" in capabilities else {"sampling": {}}


def is_too_long(value: Raw) -> bool:
    """True if `value` has more than `MAX_ITEMS` items."""
    return memoryview(value).nbytes > SMALL_BYTES and has_too_many_items(value, MAX_ITEMS)


def mode_of(question: Question) -> str:
    """The mode of an elicitation; `form` if none is given."""
    return FORM if (value := question.params.get("mode")) is None else peek_str(value) or "?"


class Unanswered(Failure, frozen=True):
    """The error in place of an answer that has not come."""


NO_FORM: Final = Result(raw({"action": "cancel"}))
"""The answer in place of a form that nobody has filled in."""


def reply_without_answer(question: Question, why: str) -> Reply:
    """The upstream's reply when nobody answers: a cancelled elicitation, or an error that says `why`."""
    if question.method == mcp.ELICIT:
        return NO_FORM
    return Unanswered(SAMPLING_REJECTED if question.method == mcp.SAMPLE else mcp.INTERNAL_ERROR, why)


def outcome_of_question(method: str, reply: Reply) -> str:
    """What became of a question: `answered`, `declined`, `expired`, since nobody has answered, or not in any usable
    form; or `refused`, by the hub or its host."""
    if reply is NO_FORM or isinstance(reply, Unanswered):
        return "expired"
    if isinstance(reply, Failure):
        return "declined" if method == mcp.SAMPLE and reply.code == SAMPLING_REJECTED else "refused"
    is_declined = method == mcp.ELICIT and peek_str(peek_object(reply.value).get("action")) != "accept"
    return "declined" if is_declined else "answered"
