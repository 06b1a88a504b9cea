"""What a configuration says after all files were read, and who says what: for `hubd config` and `hubd trust`.

Values are shown as files have them, before variables are replaced, so that `${TOKEN}` stays `${TOKEN}`. What stands
in a file in plain text and may be a secret is masked: values of `env` and `headers`, `token`, `sealing_key` and
passwords, queries of URLs, arguments that look like it (SEC-61).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from config.errors import dotted, quoted
from config.loading.all_files import Gathered
from config.loading.layers import Origin, Stack, stacks
from config.loading.source import Keys
from config.schema import HubConfig, UpstreamConfig
from config.secret_detection import looks_secret, masked_hub_setting, masked_setting


class Setting(Struct, frozen=True):
    """One value and who says it."""

    keys: Keys
    value: Any
    """As it may be shown."""
    origin: Origin | None
    """None: the default."""


class Shown(Struct, frozen=True, kw_only=True):
    """One upstream as it holds, and what of it does not count."""

    name: str
    origin: Origin
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]
    """What else it gets its environment from."""
    shadowed: tuple[Origin, ...]


def hub_settings(gathered: Gathered, *, defaults: bool) -> list[Setting]:
    """The hub's own settings in the order of the schema, those of its tables one by one; `defaults`: those that nobody
    mentions, too."""
    said = {} if gathered.main is None else gathered.main.settings
    found: list[Setting] = []
    for field in msgspec.structs.fields(HubConfig):
        if isinstance(field.default, Struct):
            within = said.get(field.name, {})
            each = (((field.name, key), within, getattr(field.default, key)) for key in field.default.__struct_fields__)
            found += (setting for keys, values, default in each for setting in _of_hub(keys, values, default, gathered))
        elif field.name != "upstreams":
            found += _of_hub((field.name,), said, field.default, gathered)
    return [setting for setting in found if defaults or setting.origin is not None]


def _of_hub(keys: Keys, values: Mapping[str, Any], default: Any, gathered: Gathered) -> Iterator[Setting]:
    """A setting that stands last in `keys` and is said in `values`, or its default, if there is one to be shown."""
    main = gathered.main
    if main is not None and keys[-1] in values:
        origin = Origin(main.path, main.findings.line(keys), main.layer)
        yield Setting(keys, masked_hub_setting(keys, values[keys[-1]]), origin)
    elif default is not None:
        yield Setting(keys, _plain(default), None)


def upstreams(gathered: Gathered, *, defaults: bool) -> list[Shown]:
    """All upstreams in their order; `defaults`: with the settings that nobody mentions."""
    return [shown(name, stack, defaults=defaults) for name, stack in stacks(gathered.sources).items()]


def shown(name: str, stack: Stack, *, defaults: bool = False, foreign: bool = False) -> Shown:
    """One upstream as it may be shown. `foreign`: it is somebody else's, and the user is to judge its environment."""
    settings: list[Setting] = []
    for field in msgspec.structs.fields(UpstreamConfig):
        said = list(_said(field.name, stack, foreign))
        settings += said
        default = None if field.default is msgspec.NODEFAULT else field.default
        if isinstance(default, Struct) and defaults:
            mentioned = {setting.keys for setting in said}
            rest = ((field.name, key) for key in default.__struct_fields__)
            settings += [Setting(keys, getattr(default, keys[1]), None) for keys in rest if keys not in mentioned]
        elif defaults and not said and default is not None and field.name not in ("args", "env", "headers", "cwd"):
            settings.append(Setting((field.name,), _plain(default), None))
    return Shown(
        name=name,
        origin=stack.used[-1].origin(()),
        settings=tuple(settings),
        notes=tuple(_notes(stack)),
        shadowed=tuple(entry.origin(()) for entry in stack.shadowed),
    )


def _notes(stack: Stack) -> Iterator[str]:
    for entry in stack.used:
        if entry.table.env_file:
            yield f"env: also the variables of the file {quoted(entry.table.env_file)}"
        if entry.table.env_vars:
            yield f"env: also {', '.join(map(quoted, entry.table.env_vars))} of the environment of hubd"


def _said(setting: str, stack: Stack, foreign: bool) -> Iterator[Setting]:
    """What files say of a setting: tables key by key, each by the entry that wins."""
    saying = [entry for entry in stack.used if setting in entry.table.values]
    if not saying:
        return
    if not isinstance(saying[0].table.values[setting], dict):
        yield Setting(
            (setting,), masked_setting(setting, saying[0].table.values[setting]), saying[0].origin((setting,))
        )
        return
    seen: set[str] = set()
    for entry in saying:
        values = entry.table.values[setting]
        for key, value in values.items() if isinstance(values, dict) else ():
            if key not in seen:
                seen.add(key)
                is_open = foreign and setting == "env" and not looks_secret(key, str(value))
                as_shown = value if is_open else masked_setting(setting, value)
                yield Setting((setting, key), as_shown, entry.origin((setting, key)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --- as TOML ----------------------------------------------------------------------------------------------------------


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return str(value) if math.isfinite(value) else str(value).removesuffix("inity")
        case int():
            return str(value)
        case list() | tuple():
            return f"[{', '.join(as_toml(each) for each in value)}]"
        case dict():
            return f"{{ {', '.join(f'{dotted((key,))} = {as_toml(each)}' for key, each in value.items())} }}"
        case _:
            return quoted(str(value))


def lines(hub: Iterable[Setting], each: Iterable[Shown]) -> Iterator[str]:
    """The whole as TOML, with a comment at each value that says where it comes from."""
    yield from _aligned([(_assignment(setting), _whence(setting.origin)) for setting in hub])
    for upstream in each:
        yield ""
        table = (f"[upstreams.{dotted((upstream.name,))}]", _whence(upstream.origin))
        yield from _aligned([table, *((_assignment(one), _whence(one.origin)) for one in upstream.settings)])
        yield from (f"# {note}" for note in upstream.notes)
        for origin in upstream.shadowed:
            yield f"# does not count: {_whence(origin)}"


def _assignment(setting: Setting) -> str:
    return f"{dotted(setting.keys)} = {as_toml(setting.value)}"


def _whence(origin: Origin | None) -> str:
    if origin is None:
        return "default"
    line = "" if origin.line is None else f":{origin.line}"
    return f"{origin.layer.value} {origin.file}{line}"


def _aligned(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = max((len(left) for left, _ in rows if len(left) <= 60), default=0)
    yield from (f"{left.ljust(width)}  # {right}" for left, right in rows)
