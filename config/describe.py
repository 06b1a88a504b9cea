"""The JSON Schema of hubd.toml, for editors: made of the structs of `schema`, their types, defaults and docstrings.

It is stricter than loading is: settings that nobody knows are wrong here and a warning there.
"""

import ast
import inspect
import re
import textwrap
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from config.loading.check import MAX_BUDGET, MAX_BUFFER, MIN_BUDGET, MIN_BUFFER
from config.loading.check_fleet import REPLICA_NAME, TOKEN
from config.schema import CacheConfig, HubConfig, ReplicaConfig, Restart, Secret, Timeouts, UpstreamConfig

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    Secret: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}
_POSITIVE: Final = {"exclusiveMinimum": 0}
_NOT_NEGATIVE: Final = {"minimum": 0}
_LIMITS: Final[dict[tuple[type[Struct], str], dict[str, Any]]] = {
    **{(Timeouts, name): _POSITIVE for name in Timeouts.__struct_fields__},
    **{(HubConfig, name): _NOT_NEGATIVE for name in HubConfig.__struct_fields__ if name.endswith("_s")},
    **{(UpstreamConfig, name): _NOT_NEGATIVE for name in UpstreamConfig.__struct_fields__ if name.endswith("_s")},
    (HubConfig, "global_buffer_bytes"): {"minimum": MIN_BUFFER, "maximum": MAX_BUFFER},
    (HubConfig, "name_budget"): {"minimum": MIN_BUDGET, "maximum": MAX_BUDGET},
    (HubConfig, "page_size"): _NOT_NEGATIVE,
    (Restart, "attempts"): _NOT_NEGATIVE,
    (UpstreamConfig, "url"): {"pattern": r"^(https?://|.*\$\{)"},
    **{(CacheConfig, name): _NOT_NEGATIVE for name in CacheConfig.__struct_fields__ if name.startswith("max_")},
    (CacheConfig, "stale_if_error_s"): _NOT_NEGATIVE,
    (CacheConfig, "url"): {"pattern": r"^(rediss?://[^@]*$|unix:///|.*\$\{)"},
    (ReplicaConfig, "name"): {"pattern": rf"^({REPLICA_NAME}$|.*\$\{{)"},
    (ReplicaConfig, "url"): {"pattern": r"^(https?://[^/@]+$|$|.*\$\{)"},
    (HubConfig, "token"): {"pattern": rf"^({TOKEN}$|.*\$\{{)"},
    (HubConfig, "sealing_key"): {"pattern": r"^([0-9A-Fa-f]{64}( [0-9A-Fa-f]{64})?$|.*\$\{)"},
}
_REFERENCES = re.compile(r" \((?:[a-z-]+\.md|[A-Z]+-|see )[^()]*\)")
"""To design documents, which readers of the schema do not have."""


def schema(*, project: bool = False) -> dict[str, Any]:
    """The schema of a hubd.toml, or of a project's `.hubd.toml`, which has upstreams only."""
    name = ".hubd.toml" if project else "hubd.toml"
    whole = _object(HubConfig)
    if project:
        whole["properties"] = {"upstreams": whole["properties"]["upstreams"]}
        whole["description"] = "MCP servers for hosts that work in this folder; they count after `hubd trust`."
    whole["properties"] = {"$schema": {"type": "string", "description": "For editors."}, **whole["properties"]}
    return {"$schema": DIALECT, "title": name, **whole, "$defs": {"upstream": _upstream()}}


def _upstream() -> dict[str, Any]:
    both = {"required": ["command", "url"]}
    return {**_object(UpstreamConfig), "not": both}


def _object(type: type[Struct]) -> dict[str, Any]:
    docs, hints = docstrings(type), get_type_hints(type)
    properties = {}
    for field in msgspec.structs.fields(type):
        described = _of(hints[field.name]) | _LIMITS.get((type, field.name), {})
        if text := docs.get(field.name):
            described["description"] = text
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        if default is not None and not isinstance(default, Struct):
            described["default"] = list(default) if isinstance(default, tuple) else default
        properties[field.name] = described
    about = plain(inspect.getdoc(type) or "")
    return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


def _of(hint: Any) -> dict[str, Any]:
    """The schema of a type."""
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if hint is UpstreamConfig:
        return {"$ref": "#/$defs/upstream"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    if origin in (Union, UnionType):
        choices = [_of(each) for each in arguments if each is not NoneType]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    return _object(hint)


# --- docstrings of settings -------------------------------------------------------------------------------------------


@cache
def docstrings(type: type[Struct]) -> dict[str, str]:
    """Setting -> the text below it in the source, without what only its authors can look up."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(type))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for line, below in zip(body.body, body.body[1:], strict=False):
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[line.target.id] = plain(str(below.value.value))
    return found


def plain(text: str) -> str:
    """One line, without references to design documents."""
    return _REFERENCES.sub("", " ".join(text.split()))
