"""The JSON Schema of hubd.toml, for editors, made of the declarations in `settings`.

It is stricter than loading is: settings that nobody knows are wrong here and a warning there.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from config.setting_declarations import Secret, Setting, declarations
from config.settings import HubConfig, UpstreamConfig

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    Secret: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
}


def schema(*, project: bool = False) -> dict[str, Any]:
    """The schema of a hubd.toml, or of a project's `.hubd.toml`, which has upstreams only."""
    name = ".hubd.toml" if project else "hubd.toml"
    whole = _object(HubConfig)
    if project:
        whole["properties"] = {"upstreams": whole["properties"]["upstreams"]}
        whole["description"] = "MCP servers for hosts that work in this folder; they count after `hubd trust`."
    whole["properties"] = {"$schema": {"type": "string", "description": "For editors."}, **whole["properties"]}
    upstream = {**_object(UpstreamConfig), "not": {"required": ["command", "url"]}}
    return {"$schema": DIALECT, "title": name, **whole, "$defs": {"upstream": upstream}}


def _object(type: type[Struct]) -> dict[str, Any]:
    texts, hints = descriptions(type), get_type_hints(type, include_extras=True)
    properties = {}
    for name, declared in declarations(type).items():
        described = _of(hints[declared.attribute]) | {"description": texts[name]}
        if declared.default is not None and declared.table is None:
            default = declared.default
            described["default"] = list(default) if isinstance(default, tuple) else default
        properties[name] = described
    about = " ".join((inspect.getdoc(type) or "").split())
    return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


def _of(hint: Any) -> dict[str, Any]:
    """The schema of a type."""
    if hint is Any:
        return {}
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if hint is UpstreamConfig:
        return {"$ref": "#/$defs/upstream"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        whole = _of(arguments[0])
        word = whole["properties"][arguments[1].short] if arguments[1].short else {}
        return {"anyOf": [{"enum": word["enum"]}, whole]} if word else whole | _limits(arguments[1])
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


def _limits(setting: Setting) -> dict[str, Any]:
    """The bounds and the pattern of a setting, in the words of JSON Schema."""
    limits = {"minimum": setting.min, "exclusiveMinimum": setting.above, "maximum": setting.max}
    found: dict[str, Any] = {keyword: limit for keyword, limit in limits.items() if limit is not None}
    if setting.pattern:
        variables = r"|.*\$\{" if setting.expanded else ""
        found["pattern"] = f"^({setting.pattern}{variables})"
    return found


@cache
def _classes_of(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes of a module by name, with their source, which is read once for all of them."""
    source = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in source.body if isinstance(each, ast.ClassDef)}


@cache
def descriptions(type: type[Struct]) -> Mapping[str, str]:
    """The text below each setting in the source, as one line; by name, in the order of `declarations`."""
    found: dict[str, str] = {}
    for each in (type, type.__base__):
        if each not in (None, Struct):
            found |= _texts_below(each)
    settings = declarations(type).items()
    return {name: found[declared.attribute] for name, declared in settings if declared.attribute in found}


def _texts_below(type: Any) -> dict[str, str]:
    """The text below each field that the source of a struct declares."""
    found = {}
    for pair in pairwise(_classes_of(type.__module__)[type.__name__].body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                found[name] = " ".join(str(text).split())
    return found
