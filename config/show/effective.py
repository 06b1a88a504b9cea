"""The configuration as it holds once all files are read, and which file says what: for `hubd config` and `hubd trust`.

Values are shown as files have them, before variables are replaced, so that `${TOKEN}` stays `${TOKEN}`. A text that may
be a secret is masked, as its setting declares: secrets, queries of URLs, arguments and other texts that look like one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from config.diagnostics import Keys, dot_keys, quote_toml
from config.loading.gather import Gathered
from config.loading.precedence import Origin, Stack, stacks
from config.secrets.detection import looks_secret
from config.secrets.masks import MASK, mask_arguments, mask_secret, mask_url
from config.setting_declarations import Declaration, declarations
from config.settings import HubConfig, UpstreamConfig


class ShownSetting(Struct, frozen=True):
    """The value of one setting, and the file that says it."""

    keys: Keys
    value: Any
    """The value, with secrets masked."""
    origin: Origin | None
    """None for a default."""


class ShownUpstream(Struct, frozen=True):
    """One upstream as it holds, and entries of its name that do not count."""

    name: str
    origin: Origin
    settings: tuple[ShownSetting, ...]
    notes: tuple[str, ...]
    """Notes on other sources of its environment."""
    shadowed: tuple[Origin, ...]


def hub_settings(gathered: Gathered, *, defaults: bool) -> list[ShownSetting]:
    """The hub's own settings in the order of the schema, those of its tables one by one; `defaults`: also settings that
    no file has."""
    said = {} if gathered.main is None else gathered.main.settings
    names = ((name, declared) for name, declared in declarations(HubConfig).items() if name != "upstreams")
    found = (setting for name, declared in names for setting in _of_hub((name,), said, declared, gathered))
    return [setting for setting in found if defaults or setting.origin is not None]


def _of_hub(keys: Keys, values: Mapping[str, Any], declared: Declaration, gathered: Gathered) -> Iterator[ShownSetting]:
    """The setting that stands last in `keys` as `values` say it, or its default, if there is one to be shown."""
    main = gathered.main
    value = values.get(keys[-1])
    below = declared.table or declared.rows or declared.named
    if below is not None:
        for path, row in [(keys, value)] if declared.table is not None else _each_below(keys, value):
            said = row if isinstance(row, dict) else {}
            for key, inner in declarations(below).items():
                if keys[0] != "defaults" or key in said:  # what no server has to have of them is shown with each
                    yield from _of_hub((*path, key), said, inner, gathered)
    elif main is not None and keys[-1] in values:
        for path, each in _each_below(keys, value) if isinstance(value, dict) else [(keys, value)]:
            origin = Origin(main.path, main.findings.line(path), main.layer)
            yield ShownSetting(path, mask_setting(path[-1], declared, each), origin)
    elif declared.default not in (None, {}):
        yield ShownSetting(keys, _plain(declared.default), None)


def _each_below(keys: Keys, values: Any) -> Iterator[tuple[Keys, Any]]:
    """The values in a mapping or a list, each with the keys that lead to it."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values if isinstance(values, list) else ())
    return (((*keys, str(key)), value) for key, value in pairs)


def upstreams(gathered: Gathered, *, defaults: bool) -> list[ShownUpstream]:
    """All upstreams in their order; `defaults`: also with settings that no file has."""
    return [show_upstream(name, stack, defaults=defaults) for name, stack in stacks(gathered.sources).items()]


def show_upstream(name: str, stack: Stack, *, defaults: bool = False, foreign: bool = False) -> ShownUpstream:
    """One upstream as it may be shown. `foreign`: another person wrote it, and the user is to judge its environment."""
    settings: list[ShownSetting] = []
    for setting, declared in declarations(UpstreamConfig).items():
        said = list(_say(setting, declared, stack, foreign))
        settings += said
        if declared.table is not None and defaults:
            mentioned = {each.keys for each in said}
            rest = {(setting, key): each.default for key, each in declarations(declared.table).items()}
            settings += [ShownSetting(keys, value, None) for keys, value in rest.items() if keys not in mentioned]
        elif defaults and not said and declared.default not in (None, {}) and declared.setting.needs is None:
            settings.append(ShownSetting((setting,), _plain(declared.default), None))
    shadowed = tuple(entry.origin(()) for entry in stack.shadowed)
    return ShownUpstream(name, stack.used[-1].origin(()), tuple(settings), tuple(_notes(stack)), shadowed)


def _notes(stack: Stack) -> Iterator[str]:
    for entry in stack.used:
        if entry.table.env_file:
            yield f"env: also the variables of the file {quote_toml(entry.table.env_file)}"
        if entry.table.env_vars:
            yield f"env: also {', '.join(map(quote_toml, entry.table.env_vars))} of the environment of hubd"


def _say(name: str, declared: Declaration, stack: Stack, foreign: bool) -> Iterator[ShownSetting]:
    """The values that files give a setting: tables key by key, each from the entry that wins."""
    saying = [entry for entry in stack.saying if name in entry.table.values]
    if not saying:
        return
    value = saying[0].table.values[name]
    if declared.setting.adds and isinstance(value, list):
        lists = [entry.table.values[name] for entry in (saying[0], stack.defaults) if entry in saying and entry]
        value = [each for values in dict.fromkeys(map(tuple, reversed(lists))) for each in values]
    if not isinstance(value, dict):
        yield ShownSetting((name,), mask_setting(name, declared, value), saying[0].origin((name,)))
        return
    seen: set[str] = set()
    for entry in saying:
        values = entry.table.values[name]
        for key, value in values.items() if isinstance(values, dict) else ():
            if key not in seen:
                seen.add(key)
                is_open = foreign and name == "env" and not looks_secret(key, str(value))
                as_shown = value if is_open else mask_setting(key, declared, value)
                yield ShownSetting((name, key), as_shown, entry.origin((name, key)))


def mask_setting(name: str, declared: Declaration, value: Any) -> Any:
    """The value of a setting, or of a key in it, as it may be shown. `value` is what a file says, perhaps of a wrong
    type."""
    mask = declared.setting.mask
    if declared.holds_secrets:
        return mask_secret(value, scheme=True)
    if mask == "url" and isinstance(value, str):
        return mask_url(value)
    if declared.is_secret:
        return mask_secret(value)
    if mask == "arguments" and isinstance(value, list):
        return list(mask_arguments([str(each) for each in value]))
    if mask == "guess" and isinstance(value, str) and looks_secret(name, value):
        return MASK
    if isinstance(value, dict):
        return {key: mask_setting(key, declared, each) for key, each in value.items()}
    return value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --- as TOML ----------------------------------------------------------------------------------------------------------


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case list() | tuple():
            return f"[{', '.join(as_toml(each) for each in value)}]"
        case dict():
            return f"{{ {', '.join(f'{dot_keys((key,))} = {as_toml(each)}' for key, each in value.items())} }}"
        case _:
            return quote_toml(str(value))


def lines(hub: Iterable[ShownSetting], each: Iterable[ShownUpstream]) -> Iterator[str]:
    """The whole as TOML, with a comment at each value that says where it comes from."""
    yield from _align([(_assignment(setting), _whence(setting.origin)) for setting in hub])
    for upstream in each:
        yield ""
        table = (f"[upstreams.{dot_keys((upstream.name,))}]", _whence(upstream.origin))
        yield from _align([table, *((_assignment(one), _whence(one.origin)) for one in upstream.settings)])
        yield from (f"# {note}" for note in upstream.notes)
        for origin in upstream.shadowed:
            yield f"# does not count: {_whence(origin)}"


def _assignment(setting: ShownSetting) -> str:
    return f"{dot_keys(setting.keys)} = {as_toml(setting.value)}"


def _whence(origin: Origin | None) -> str:
    if origin is None:
        return "default"
    line = "" if origin.line is None else f":{origin.line}"
    return f"{origin.layer.value} {origin.file}{line}"


def _align(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max((len(left) for left, _ in rows if len(left) <= 60), default=0)
    yield from (f"{left.ljust(width)}  # {right}" for left, right in rows)
