"""Questions of upstreams and answers of hosts: checked, and translated between revisions.

    question_for_host    the question in the host's revision        else `QuestionRefusal`
    answer_for_upstream  the answer, checked, in the upstream's     else `RemoteProtocolError` (the host's fault) or
                                                                    `QuestionRefusal` (nobody's)

Content that both sides can read passes as it is.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw

from hub.wire import jsonrpc, mcp
from hub.wire.capabilities import FORM, URL
from hub.wire.jsonrpc import EMPTY, RemoteProtocolError, peek_object, peek_str, raw
from hub.wire.mcp import Era, era_of
from hub.wire.questions import older_forms_and_sampling as older
from hub.wire.questions.askable_questions import MAX_ITEMS, Question, QuestionRefusal, is_too_long, mode_of
from hub.wire.questions.page_urls import ForbiddenUrl, host_of


def question_for_host(question: Question, host_version: str) -> dict[str, Raw]:
    """Translate the params of `question` for a host of `host_version`. Raises QuestionRefusal: `host_version` cannot
    express the question, or the question is invalid (-32602, or -32601 for the method)."""
    params = {name: value for name, value in question.params.items() if name not in ("_meta", "task")}
    if era_of(host_version) is Era.LEGACY and (meta := _meta(question.params)):
        params["_meta"] = meta
    if question.method == mcp.ELICIT:
        return _elicitation(question, params, host_version)
    if question.method == mcp.SAMPLE:
        return _sampling(params, host_version)
    if question.method == mcp.LIST_ROOTS:
        return params
    raise QuestionRefusal(f"hubd knows no {question.method}", mcp.METHOD_NOT_FOUND)


def _meta(members: Mapping[str, Raw]) -> Raw | None:
    """`_meta` without the keys of one hop; None: no other keys are left."""
    meta = {name: value for name, value in peek_object(members.get("_meta")).items() if name not in mcp.HOP_KEYS}
    return raw(meta) if meta else None


def _elicitation(question: Question, params: dict[str, Raw], host_version: str) -> dict[str, Raw]:
    if host_version in (mcp.L1, mcp.L2):
        raise QuestionRefusal(f"A host of {host_version} does not answer {mcp.ELICIT}", mcp.METHOD_NOT_FOUND)
    if (message := peek_str(params.get("message"))) is None:
        raise QuestionRefusal(f"{mcp.ELICIT} needs a message")
    if (mode := mode_of(question)) == FORM:
        if question.upstream:  # by itself the host shows only the hub's name
            params["message"] = raw(f"[{question.upstream}] {message}")
        return _form(params, host_version)
    if mode != URL or host_version == mcp.L3:
        raise QuestionRefusal(f"A host of {host_version} knows no elicitation of mode {mode}")
    params["message"] = raw(f"[{question.upstream}: page at {page_host(peek_str(params.get('url')))}] {message}")
    theirs = peek_str(params.pop("elicitationId", None))
    if host_version == mcp.L4:
        params["elicitationId"] = raw(elicitation_id(question.upstream, theirs))
    return params


def page_host(url: str | None) -> str:
    """The host of a page that a person is asked to visit. Raises QuestionRefusal: the URL is missing, or no person is
    sent to it."""
    if url is None:
        raise QuestionRefusal(f"{mcp.ELICIT} of mode url needs a url")
    try:
        return host_of(url)
    except ForbiddenUrl as error:
        raise QuestionRefusal(f"The URL of this {mcp.ELICIT} {error}. Nobody was asked to open it") from None


def elicitation_id(upstream: str, theirs: str | None) -> str:
    """The id under which a host of 2025-11-25 knows a visit to a page. `theirs` None: the upstream gave none."""
    return f"{upstream}:{secrets.token_urlsafe(12) if theirs is None else theirs}"


def _form(params: dict[str, Raw], host_version: str) -> dict[str, Raw]:
    if (schema := params.get("requestedSchema")) is not None and is_too_long(schema):
        raise QuestionRefusal(f"The requestedSchema has more than {MAX_ITEMS} items")
    members = peek_object(schema)
    properties = members.get("properties")
    if schema is None or properties is None or bytes(properties)[:1] != b"{":
        raise QuestionRefusal(f"{mcp.ELICIT} needs a requestedSchema with properties")
    if peek_str(members.get("type")) != "object":
        raise QuestionRefusal("requestedSchema is of type object")
    if host_version == mcp.L3:
        try:
            params["requestedSchema"] = older.older_form(schema)
        except older.Inexpressible as error:
            raise QuestionRefusal(f"A host of {host_version} cannot show this form: {error}") from None
    return params


def _sampling(params: dict[str, Raw], host_version: str) -> dict[str, Raw]:
    if not bytes(params.get("maxTokens", b"")).isdigit():
        raise QuestionRefusal(f"{mcp.SAMPLE} needs maxTokens")
    if host_version in older.SINGLE and older.uses_tools(params):
        raise QuestionRefusal(f"A host of {host_version} knows no tools in sampling")
    try:
        params["messages"] = older.older_messages(params.get("messages", EMPTY), host_version)
    except (older.SenderFault, older.Inexpressible) as error:
        raise QuestionRefusal(f"The host of this call cannot be asked to sample: {error}") from None
    if "includeContext" in params:
        params["includeContext"] = raw("none")  # through a hub, "this server" would mean every upstream
    return params


# --- answers ----------------------------------------------------------------------------------------------------------


def answer_for_upstream(question: Question, answer: Raw, host_version: str) -> Raw:
    """Check a host's answer to `question_for_host(question, host_version)`, and translate it for the upstream. Raises
    RemoteProtocolError: -32602, the answer does not fit the question, has too many items, or fewer or more options are
    chosen than the form allows; the host may try again; QuestionRefusal: -32603, the upstream's revision cannot express
    the answer."""
    if is_too_long(answer):
        text = f"The answer to {question.method} has more than {MAX_ITEMS} items"
        raise RemoteProtocolError(mcp.INVALID_PARAMS, text)
    members = jsonrpc.open_object(answer)
    found = dict(members)
    members.pop(mcp.RESULT_TYPE, None)
    if "_meta" in members and (meta := _meta(members)) != members["_meta"]:
        del members["_meta"]
        members |= {"_meta": meta} if meta is not None else {}
    _ANSWERS[question.method](question, members, host_version)
    return answer if members == found else raw(members)


def _elicited(question: Question, members: dict[str, Raw], host_version: str) -> None:
    if (action := peek_str(members.get("action"))) not in ("accept", "decline", "cancel"):
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "The action of an elicitation is accept, decline or cancel")
    if (content := members.get("content")) is None:
        return
    if action != "accept" or mode_of(question) != FORM:
        del members["content"]  # the user did not agree to send it
        return
    filled = jsonrpc.open_object(content)
    if not all(map(_is_filled, filled.values())):
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "A form holds strings, numbers, booleans and lists of strings")
    if host_version == mcp.L3:
        try:
            newer = older.newer_content(question.params.get("requestedSchema", EMPTY), filled)
        except older.SenderFault as error:
            raise RemoteProtocolError(mcp.INVALID_PARAMS, str(error)) from None
        except older.Inexpressible as error:
            raise QuestionRefusal(f"A host of {host_version} cannot be shown this form: {error}") from None
        if newer != filled:
            members["content"] = raw(newer)


def _is_filled(value: Raw) -> bool:
    if (first := bytes(memoryview(value)[:1])) == b"[":
        return all(peek_str(each) is not None for each in jsonrpc.peek_array(value))
    return first not in (b"{", b"n")


def _sampled(question: Question, members: dict[str, Raw], host_version: str) -> None:
    if peek_str(members.get("model")) is None:
        raise RemoteProtocolError(mcp.INVALID_PARAMS, f"An answer to {mcp.SAMPLE} needs a model")
    try:
        members["content"] = older.older_content(members, question.version)
    except older.SenderFault as error:
        raise RemoteProtocolError(mcp.INVALID_PARAMS, f"The answer to {mcp.SAMPLE} is no message: {error}") from None
    except older.Inexpressible as error:
        raise QuestionRefusal(f"The host answered with {error}", mcp.INTERNAL_ERROR) from None


def _rooted(question: Question, members: dict[str, Raw], host_version: str) -> None:
    roots = members.get("roots", EMPTY)
    uris = [peek_str(peek_object(root).get("uri")) for root in jsonrpc.peek_array(roots)]
    if bytes(roots)[:1] != b"[" or None in uris:
        raise RemoteProtocolError(mcp.INVALID_PARAMS, "Roots are a list, each with a uri")


_ANSWERS: Final[Mapping[str, Callable[[Question, dict[str, Raw], str], None]]] = {
    mcp.ELICIT: _elicited,
    mcp.SAMPLE: _sampled,
    mcp.LIST_ROOTS: _rooted,
}
