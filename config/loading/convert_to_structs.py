"""Conversion of plain values to the structs of `schema`; mistakes are told in the words of the file.

Unknown settings are ignored with a warning that names the nearest known one: a file may be older or newer than this
hub. A value of a wrong type is a problem. Each upstream is converted apart, since msgspec does not name the key of a
mapping in its errors.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import NoneType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from config.diagnostics import Findings, Keys
from config.security_settings import ConditionalRule, PolicyConfig
from config.setting_declarations import declarations, hide, tables
from config.settings import HubConfig, ServerSettings, UpstreamConfig

HUB: Final = frozenset(declarations(HubConfig))
UPSTREAM: Final = frozenset(declarations(UpstreamConfig))
T = TypeVar("T", bound=Struct)
Place = Callable[[Keys], Keys]
"""The keys of a setting as its file has them."""


def convert_known(values: dict[str, Any], type: type[T], findings: Findings, place: Place) -> tuple[dict[str, Any], T]:
    """The values that fit, and their struct. Those that do not fit are among the findings."""
    values = _spell_out(_select_known(values, type, findings, place), type)
    for setting, declared in declarations(type).items():
        value = values.get(setting)
        below = partial(_place_below, place, setting)
        if declared.rows is not None and isinstance(value, list):
            numbered = ((str(number), row) for number, row in enumerate(value))
            rows = _tables(numbered, declared.rows, findings, below, "expected a table")
            values[setting] = [row for _, row in rows]
        if not isinstance(value, dict):
            continue
        if declared.table is not None:
            values[setting], _ = convert_known(value, declared.table, findings, below)
        elif declared.rows is not None:
            above = next((f"{table}." for table, its in tables(HubConfig).items() if its is type), "")
            findings.wrong(place((setting,)), f"is a list of tables; write [[{above}{setting}]]")
            del values[setting]
        elif declared.named is not None:
            expected = f"expected a table: write [{setting}.NAME] above this"
            values[setting] = dict(_tables(value.items(), declared.named, findings, below, expected))
        elif declared.holds_secrets:
            for name in [name for name, text in value.items() if not isinstance(text, str)]:
                findings.wrong(below((name,)), "expected text in quotes")
            values[setting] = {name: text for name, text in value.items() if isinstance(text, str)}
    try:
        return values, convert(values, type)
    except msgspec.ValidationError:
        pass
    for setting, value in [*values.items()]:  # find all of them
        try:
            convert({setting: value}, type)
        except msgspec.ValidationError as error:
            path, text = _explain(str(error), type)
            findings.wrong(place(path), text)
            del values[setting]
    return values, convert(values, type)


def _spell_out(values: dict[str, Any], type: type[Struct]) -> dict[str, Any]:
    """`values` with the tables that stand there as one word."""
    short = {name: declared.setting.short for name, declared in declarations(type).items() if declared.setting.short}
    words = {name: {key: values[name]} for name, key in short.items() if isinstance(values.get(name), str)}
    return {**values, **words}


def _tables(
    tables: Iterable[tuple[str, Any]], type: type[Struct], findings: Findings, place: Place, expected: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables by name or number, each with the values that fit. What is no table is among the findings."""
    for key, table in tables:
        below = partial(_place_below, place, key)
        if isinstance(table, dict):
            yield key, convert_known(table, type, findings, below)[0]
        else:
            findings.wrong(below(()), expected)


def _place_below(place: Place, setting: str, keys: Keys) -> Keys:
    return place((setting, *keys))


def convert(values: dict[str, Any], type: type[T]) -> T:
    """`values` as `type`. Raises: msgspec.ValidationError, if they do not fit."""
    return msgspec.convert(values, type, dec_hook=hide)


def _select_known(values: dict[str, Any], type: type[Struct], findings: Findings, place: Place) -> dict[str, Any]:
    known = declarations(type)
    for key in values:
        if key in known:
            continue
        if key == "policy" or issubclass(type, PolicyConfig | ConditionalRule):  # whoever wrote it relies on it
            findings.wrong(place((key,)), _unknown(key, type).removeprefix("ignored: "))
        else:
            findings.warn(place((key,)), _unknown(key, type))
    return {key: value for key, value in values.items() if key in known}


def _unknown(key: str, type: type[Struct]) -> str:
    known = declarations(type)
    if type is ServerSettings and key in UPSTREAM:
        return "ignored: it says which server one is; write it below [upstreams.NAME]"
    if type is not HubConfig and (declared := declarations(HubConfig).get(key)) is not None:
        if declared.table is None and declared.named is None:
            return "ignored: it is a setting of the whole hub; in hubd.toml it stands above the first [table]"
        if issubclass(type, ServerSettings) or not nearest(key, type):
            return (
                f"ignored: it is a table of the whole hub; write [{key}{'.NAME' * bool(declared.named)}] in hubd.toml"
            )
    if type is HubConfig and key in UPSTREAM:
        return "ignored: it is a setting of one upstream; write it below [upstreams.NAME]"
    holders = [table for table, its in tables(HubConfig).items() if key in declarations(its)]
    if type is HubConfig and holders:
        return f"ignored: it is a setting of [{holders[0]}]; write it below that"
    if below := _below_a_name(key, type):
        return f"ignored: it is a setting of one tool each; write {below}"
    near = nearest(key, type)
    hint = f'did you mean "{near[0]}"?' if near else f"known are: {', '.join(sorted(known))}"
    return f"ignored: unknown setting; {hint}"


def _below_a_name(key: str, type: type[Struct]) -> str:
    """The place of a setting that stands in a table of `type` below the name of a tool; "": there is no such."""
    for table, declared in declarations(type).items() if type is not HubConfig else ():
        for name, below in declarations(declared.named).items() if declared.named is not None else ():
            if key in (name, *below.setting.hints.split()):
                return f'{table}."TOOL".{name}'
    return ""


def nearest(key: str, type: type[Struct]) -> list[str]:
    """The setting that is probably meant by an unknown key, if any."""
    from difflib import get_close_matches  # not above: it is large, and most hubs never need it

    instead = [name for name, declared in declarations(type).items() if key in declared.setting.hints.split()]
    return instead or get_close_matches(key, list(declarations(type)), 1)


# --- what msgspec says ------------------------------------------------------------------------------------------------

_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]+)`(?: \| null)?, got `(?P<got>[^`]+)`")
_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_WORDS: Final = {
    **dict.fromkeys(("str", "str | null"), "text in quotes"),
    **dict.fromkeys(("int", "int | null"), "a whole number"),
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _explain(message: str, type: type[Struct]) -> tuple[Keys, str]:
    """The keys and the text of a message of msgspec, in the words of the file."""
    found = _PATH.search(message)
    path = re.findall(r"[A-Za-z_]\w*", found["path"]) if found else []
    message = _PATH.sub("", message)
    expected = _EXPECTED.match(message)
    if message.startswith("Invalid enum value") or (expected and expected["wanted"] == "str | array"):
        message = f"must be {choices(declarations(type)[path[0]].value_type)}"
    elif expected:
        wanted, got = (_WORDS.get(word, word) for word in (expected["wanted"], expected["got"]))
        message = f"expected {wanted}, not {got}"
    return tuple(path), message


def choices(hint: Any) -> str:
    """The choices of a setting, for people."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in inner)
    if origin is tuple:
        return f"a list of {choices(inner[0])}" if get_origin(inner[0]) is Literal else "a list"
    if origin is dict:
        return f"a table in which each is {choices(inner[1])}"
    return ", or ".join(choices(each) for each in inner if each is not NoneType)
