"""Wishes of hosts: what is asked about, read from an intent, with the words for people.

What is shown and compared is what is sent: of a name that stands twice among the arguments nobody sees more than one
value.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, structs

from config.diff import what_runs
from config.loading.split_accounts import whole_name
from config.server_names import RESERVED
from hub.calls.chain import Intent
from hub.catalog.tool_annotations import hints_for, marks_of
from hub.rules.approvals.digest_of_arguments import digest_of
from hub.rules.approvals.requests import Subject, Wish
from hub.rules.approvals.texts_for_people import question_text, show_arguments, show_marks, show_program
from hub.rules.fingerprints import hash_of, key_of
from hub.rules.policy.verdict import Verdict
from hub.rules.settle_arguments import settle
from hub.wire.jsonrpc import EMPTY, Request, detach, peek_array, peek_object, peek_str
from hub.wire.mcp import COMPLETE, PROMPTS_GET, RESOURCES_READ, TASKS_UPDATE, TOOLS_CALL, Kind
from hub.wire.printable import visible
from upstreams.redact import CommonSecrets, Mask

VERBS: Final = {TOOLS_CALL: "run", PROMPTS_GET: "use the prompt", RESOURCES_READ: "read"}
"""Operations that people can be asked about, with the word for them."""
MAX_ASKED_BYTES: Final = 64 << 10
"""Bytes of arguments, and of a name or URI, that people are asked about: all that is done with them takes a few
milliseconds."""
MAX_LISTED: Final = 200
"""Characters of the arguments in a list."""
RETRY: Final = frozenset({"requestState", "inputResponses"})
"""Params of a retry."""
_KINDS: Final = {TOOLS_CALL: Kind.TOOL, PROMPTS_GET: Kind.PROMPT, TASKS_UPDATE: Kind.TOOL}
_REFERENCES: Final = {"ref/prompt": Kind.PROMPT, "ref/resource": Kind.TEMPLATE}


async def first_attempt(intent: Intent) -> Intent:
    """The intent of a request that brings no answers and whose arguments mean one thing only.

    Raises:
        RemoteProtocolError: -32602, nobody can look through the arguments.
    """
    request, operation = intent.request, intent.operation
    if not RETRY.isdisjoint(request.params):
        params = {name: value for name, value in request.params.items() if name not in RETRY}
        intent = structs.replace(intent, request=Request(request.id, request.method, params))
    return intent if is_too_large(intent) else structs.replace(intent, operation=await settle(operation))


def is_too_large(intent: Intent) -> bool:
    """True if nobody could look through what an intent wants."""
    arguments = intent.operation.params.get("arguments", EMPTY)
    return memoryview(arguments).nbytes + len(intent.target.exposed) > MAX_ASKED_BYTES


def subject_of(intent: Intent) -> Subject:
    """The subject of an intent, however it is defined."""
    identity, route, upstream = intent.host.caller.identity, intent.target.route, intent.target.upstream
    server = whole_name(upstream.name, upstream.config)  # a yes for one account is none for another
    return Subject(identity.principal, identity.host, server, _kind(intent).value, route.original, "")


def wish_of(intent: Intent, verdict: Verdict, common: CommonSecrets) -> Wish:
    """The wish behind an intent that the rules of `verdict` ask about. `common`: secrets that nobody is shown."""
    target, params, caller = intent.target, intent.operation.params, intent.host.caller
    upstream, subject = target.upstream.newest, subject_of(intent)
    config = upstream.config
    entry = upstream.snapshot.find(_kind(intent), subject.original)
    if entry is not None:
        definition = hash_of(key_of(_kind(intent), subject.original), entry.fields)
        subject = structs.replace(subject, definition=definition)
    large = is_too_large(intent)
    arguments = EMPTY if large else params.get("arguments", EMPTY)
    marks, order = "", dict[str, int]()
    if intent.request.method == TOOLS_CALL:
        hints, fields = tuple(config.hints.items()), {} if entry is None else entry.fields
        order = _order_of(peek_object(fields.get("inputSchema")))
        found = marks_of(fields, subject.original, hints, trusted=config.trusted)
        is_users = bool(hints_for(subject.original, hints))
        if upstream.name != RESERVED:  # of a pipeline the tools that it is made of are told
            marks = show_marks(found, upstream.name, trusted=config.trusted, is_users=is_users)
    shown = _hide_secrets(arguments, Mask(config, common))
    lines = (
        ("server", f"{upstream.name}, which is {show_program(config)}"),
        ("marks", marks),
        ("arguments", show_arguments(shown, order=order)),
        ("rule", visible(verdict.words)),
    )
    return Wish(
        subject,
        "" if large else digest_of(intent.request.method, arguments),
        target.exposed,
        verdict.rule,
        what_runs(config),
        question_text(subject.host, VERBS.get(intent.request.method, "use"), target.exposed, lines),
        detach(shown),
        show_arguments(shown, MAX_LISTED, order),
        caller,
        intent.host.view,
        target,
        large,
        intent.ref,
        verdict.says or (verdict.rule,),
    )


def _hide_secrets(arguments: Raw, mask: Mask) -> Raw:
    """Arguments as people may see them."""
    text = bytes(arguments).decode(errors="replace")
    return arguments if (found := mask(text)) == text else Raw(found.encode())


def _order_of(schema: Mapping[str, Raw]) -> dict[str, int]:
    """The names that a schema tells of, those that are required first."""
    required = filter(None, map(peek_str, peek_array(schema.get("required"))))
    return {name: at for at, name in enumerate(dict.fromkeys([*required, *peek_object(schema.get("properties"))]))}


def _kind(intent: Intent) -> Kind:
    method = intent.request.method
    if method == COMPLETE:
        reference = peek_object(intent.operation.params.get("ref"))
        return _REFERENCES.get(peek_str(reference.get("type")) or "", Kind.RESOURCE)
    return _KINDS.get(method, Kind.RESOURCE)
