"""Checks a message by the official schema of its revision.

    validate(message, "2025-11-25", sender="server", method="tools/call")

A request or notification must match the type of its method, and be one that its sender may send; a result must match
the result type of its request, if `method` names that. The files in tests/data/schema are published with the
specification, and patched here where they differ from its schema.ts.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

FILES = Path(__file__).parents[1] / "data" / "schema"
MODERN = "2026-07-28"
BATCHES = "2025-03-26"

Sender = Literal["client", "server"]


class Invalid(AssertionError):
    """A message that its revision does not allow."""


def validate(message: bytes, version: str, *, sender: Sender, method: str | None = None) -> None:
    """Raise `Invalid` unless `message` is one that `sender` may send under `version`.

    `method` is the method of the request that a response answers; None: not known, so only the envelope and the common
    members of results are checked. An array is a batch, in the one revision that has them.
    """
    if b"\n" in message or b"\r" in message:
        raise Invalid(f"a line end within {message[:200]!r}")
    value = json.loads(message)
    if isinstance(value, list) and version == BATCHES and value:
        for part in value:
            _judge(part, version, sender, None)
        return
    _judge(value, version, sender, method)


def _judge(value: Any, version: str, sender: Sender, method: str | None) -> None:
    if not isinstance(value, dict):
        raise Invalid(f"not one message: {value!r:.200}")
    if "method" in value:
        _judge_question(value, version, sender)
    elif "error" in value:
        _judge_error(value, version)
    else:
        _judge_result(value, version, method)


def _judge_question(value: dict[str, Any], version: str, sender: Sender) -> None:
    family = "Request" if "id" in value else "Notification"
    name = _questions(version, sender, family).get(value["method"])
    if name is None:
        raise Invalid(f"a {sender} of {version} sends no {family.lower()} {value['method']!r}")
    _check(value, version, f"JSONRPC{family}")
    _check(value, version, name)


def _judge_error(value: dict[str, Any], version: str) -> None:
    _check(value, version, "JSONRPCErrorResponse" if version >= "2025-11-25" else "JSONRPCError")
    name, whole = _errors(version).get(value["error"]["code"], ("", False))
    if name:
        _check(value if whole else value["error"], version, name)
    code = value["error"]["code"]
    if version == MODERN and -32099 <= code <= -32000 and not name:
        raise Invalid(f"error {code} is not defined in {version} (E-1, E-2, S-28)")


def _judge_result(value: dict[str, Any], version: str, method: str | None) -> None:
    _check(value, version, "JSONRPCResultResponse" if version >= "2025-11-25" else "JSONRPCResponse")
    result = value["result"]
    if method is None:
        return
    name = _results(version).get(method)
    if name is None:
        raise Invalid(f"{version} has no request {method!r}")
    if result.get("resultType") == "input_required":
        name = "InputRequiredResult"
    elif method == "tools/call" and (
        result.get("resultType") == "task" or (version == "2025-11-25" and "task" in result)
    ):
        name = "CreateTaskResult"
    if version == MODERN and result["resultType"] not in ("complete", "input_required", "task"):
        raise Invalid(f"resultType {result['resultType']!r}")
    _check(result, version, name)


# --- the schemas ------------------------------------------------------------------------------------------------------


@cache
def _definitions(version: str) -> dict[str, Any]:
    schema = json.loads((FILES / f"{version}.json").read_text())
    definitions = _patched(schema.get("$defs") or schema["definitions"])
    if version == MODERN:
        _add_tasks(definitions)
    return definitions


def _add_tasks(definitions: dict[str, Any]) -> None:
    """Add the tasks extension from its own file; `_more` there extends unions and a type of the revision."""
    extension = json.loads((FILES / "tasks-2026-07-28.json").read_text())
    definitions |= extension["$defs"]
    for union, names in extension["_more"]["unions"].items():
        definitions[union]["anyOf"] += [{"$ref": f"#/$defs/{name}"} for name in names]
    definitions["SubscriptionFilter"]["properties"] |= extension["_more"]["SubscriptionFilter"]


def _patched(definitions: dict[str, Any]) -> dict[str, Any]:
    """Mend types of schema.ts: in unions `number` had become `integer`, and `null` was lost."""
    content = (
        definitions.get("ElicitResult", {}).get("properties", {}).get("content", {}).get("additionalProperties", {})
    )
    for union in (content, *content.get("anyOf", ())):
        if isinstance(union.get("type"), list):
            union["type"] = ["string", "number", "boolean"]
    for union in definitions.get("JSONValue", {}).get("anyOf", ()):
        if isinstance(union.get("type"), list):
            union["type"] = ["string", "number", "boolean", "null"]
    return definitions


@cache
def _validator(version: str, name: str) -> Any:
    keyword = "$defs" if version >= "2025-11-25" else "definitions"
    schema = {"$ref": f"#/{keyword}/{name}", keyword: _definitions(version)}
    build = jsonschema_rs.Draft202012Validator if keyword == "$defs" else jsonschema_rs.Draft7Validator
    return build(schema, offline=True)


def _check(value: Any, version: str, name: str) -> None:
    errors = [f"{error.instance_path}: {error.message:.300}" for error in _validator(version, name).iter_errors(value)]
    if errors:
        raise Invalid(f"no {name} of {version}: {'; '.join(errors)}\n{json.dumps(value)[:1000]}")


def _method(definition: dict[str, Any]) -> str | None:
    return definition.get("properties", {}).get("method", {}).get("const")


@cache
def _questions(version: str, sender: Sender, family: str) -> dict[str, str]:
    """Method -> type, of the requests or notifications a sender may send."""
    definitions = _definitions(version)
    union = definitions.get(f"{sender.capitalize()}{family}", {})
    names = [part["$ref"].rsplit("/", 1)[-1] for part in union.get("anyOf", ())]
    if _method(union):  # a union of one type is published as that type
        names = [f"{sender.capitalize()}{family}"]
    return {str(_method(definitions[name])): name for name in names}


@cache
def _results(version: str) -> dict[str, str]:
    """Method -> type of its result; methods without a type of their own have the empty result."""
    definitions = _definitions(version)
    results = {}
    for name, definition in definitions.items():
        if name.endswith("Request") and (method := _method(definition)):
            own = name.removesuffix("Request") + "Result"
            results[method] = own if own in definitions else "EmptyResult"
    return results


@cache
def _errors(version: str) -> dict[int, tuple[str, bool]]:
    """Code -> type of the error, and whether that is the type of the whole response."""
    errors = {}
    for name, definition in _definitions(version).items():
        properties = definition.get("properties", {})
        if "const" in properties.get("code", {}):
            errors[properties["code"]["const"]] = (name, False)
        for part in properties.get("error", {}).get("allOf", ()):
            if "const" in part.get("properties", {}).get("code", {}):
                errors[part["properties"]["code"]["const"]] = (name, True)
    return errors
