"""Declarations of settings: the facts about one (`Setting`), a text that does not show itself (`Secret`), and the
reading of what is declared, bounds of numbers among it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from config.diagnostics import Problem


class Setting(Struct, frozen=True, kw_only=True):
    """Facts about one setting that its type, default and description do not say."""

    reload: Literal["live", "reconnect", "restart"] | None
    """The time at which a change takes effect: at once, in new sessions with the server, or at the next start of the
    hub. None: a change means nothing by itself (`include`), or each setting of this table says it (`cache`)."""
    min: float | None = None
    """The smallest number."""
    above: float | None = None
    """The number that it must be larger than."""
    max: float | None = None
    """The largest number."""
    unit: str = ""
    """The noun for what the number counts."""
    zero: str = ""
    """The meaning of 0, if it is a special one."""
    pattern: str = ""
    """A regular expression for editors, anchored at the start; `loading.checks` are stricter."""
    expanded: bool = False
    """True if variables such as `${NAME}` are replaced."""
    path: bool = False
    """True if it is the path of a file, relative to the file that the setting is in."""
    mask: Literal["guess", "url", "arguments", "never"] = "guess"
    """The form in which a text is shown that is no `Secret` by its type: masked if name or value look like a secret,
    without the secret parts of a URL, without the secrets among arguments, or as it is."""
    identity: Literal["server", "session"] | None = None
    """The identity that it belongs to, of the server or of sessions with it: what is remembered is kept apart by it."""
    needs: Literal["command", "url"] | None = None
    """The setting beside which alone it makes sense."""
    short: str = ""
    """The setting of this table that a text in place of the table stands for."""
    owner: bool = False
    """True if a project may not say it of a server that the user's own files have."""
    adds: bool = False
    """True if a server's list is added to that of `[defaults]`, and does not replace it."""
    hints: str = ""
    """Names that other programs have for it, as words, for hints about unknown settings."""


# Declarations by when a change takes effect.
live = partial(Setting, reload="live")
reconnect = partial(Setting, reload="reconnect")
restart = partial(Setting, reload="restart")


class Secret:
    """A text that does not show itself: its repr and str are masked. Read it with `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def reveal(value: object) -> str:
    """The text of a secret, as an `enc_hook` of msgspec."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError


def hide(type: type, value: Any) -> Any:
    """A text as a secret, as a `dec_hook` of msgspec."""
    if type is not Secret:
        raise NotImplementedError(f"no conversion to {type.__name__}")
    if not isinstance(value, str):
        raise TypeError("expected text in quotes")
    return Secret(value)


class Declaration(Struct, frozen=True, kw_only=True):
    """One setting as it is declared."""

    attribute: str
    """The name of its field in the struct: that of the setting, but for words of Python (`pass_`)."""
    value_type: Any
    """The type without its annotation."""
    default: Any
    setting: Setting
    each: Setting | None = None
    """Facts about each value, if it is a mapping whose values declare some."""
    table: type[Struct] | None = None
    """The struct of its settings, if it is a table."""
    rows: type[Struct] | None = None
    """The struct of each entry, if it is a list of tables."""
    named: type[Struct] | None = None
    """The struct of each value, if it is tables by name."""

    @property
    def is_secret(self) -> bool:
        """True if its value is a secret."""
        return Secret in (self.value_type, *get_args(self.value_type)) and not self.holds_secrets

    @property
    def holds_secrets(self) -> bool:
        """True if it is a mapping of names to secrets."""
        return get_origin(self.value_type) is dict and Secret in get_args(self.value_type)


@cache
def declarations(type: type[Struct]) -> Mapping[str, Declaration]:
    """The settings of a struct of `settings` by the names that files have for them: its own in its order, then those
    that it shares with another struct.
    Raises: TypeError, if one has no `Setting`."""
    hints = get_type_hints(type, include_extras=True)
    fields, shared = msgspec.structs.fields(type), len(getattr(type.__base__, "__struct_fields__", ()))
    return {field.encode_name: _declaration(field, hints[field.name]) for field in (*fields[shared:], *fields[:shared])}


def _declaration(field: msgspec.structs.FieldInfo, hint: Any) -> Declaration:
    plain, setting = _facts(hint)
    if setting is None:
        raise TypeError(f"the setting {field.name} is declared without a Setting")
    return Declaration(
        attribute=field.name,
        value_type=plain,
        default=field.default_factory() if field.default is msgspec.NODEFAULT else field.default,
        setting=setting,
        each=_facts(get_args(plain)[1])[1] if get_origin(plain) is dict else None,
        table=plain if _is_struct(plain) else None,
        rows=get_args(plain)[0] if get_origin(plain) is tuple and _is_struct(get_args(plain)[0]) else None,
        named=get_args(plain)[1] if get_origin(plain) is dict and _is_struct(get_args(plain)[1]) else None,
    )


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _facts(hint: Any) -> tuple[Any, Setting | None]:
    """A type without its annotation, and the `Setting` in that."""
    if get_origin(hint) is not Annotated:
        return hint, None
    plain, *extras = get_args(hint)
    return plain, next((extra for extra in extras if isinstance(extra, Setting)), None)


@cache
def tables(type: type[Struct]) -> Mapping[str, type[Struct]]:
    """The settings of a struct that are tables of settings, with the structs of those."""
    return {name: each.table for name, each in declarations(type).items() if each.table is not None}


def leaves_of(values: Struct, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Declaration, Any]]:
    """The settings of a struct of `settings` that are no tables, and those of its tables: keys, declaration, value."""
    for name, declared in declarations(type(values)).items():
        value, keys = getattr(values, declared.attribute), (*above, name)
        if isinstance(value, Struct):
            yield from leaves_of(value, keys)
        elif declared.named is not None or declared.rows is not None:
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from leaves_of(each, (*keys, str(key)))
        else:
            yield keys, declared, value


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)


def texts_of(value: Any) -> Iterator[str]:
    """The texts in the value of a setting, those of secrets too."""
    for each in _items(value):
        if isinstance(each, Secret | str):
            yield each.reveal() if isinstance(each, Secret) else each


def secrets_of(values: Struct) -> Iterator[str]:
    """The texts of all secrets in a struct of `settings` and in its tables."""
    items = (each for _, _, value in leaves_of(values) for each in _items(value))
    return (each.reveal() for each in items if isinstance(each, Secret))


def problems_of_bounds(values: Struct) -> Iterator[Problem]:
    """Numbers beyond the bounds that their settings declare, in a struct of `settings` and in its tables."""
    for keys, declared, value in leaves_of(values):
        numbers = {keys: value} if declared.each is None else {(*keys, key): each for key, each in value.items()}
        for path, number in numbers.items():
            if why := flaw_in_bounds(number, declared.each or declared.setting):
                yield Problem(path, why)


MAX_WHOLE: Final = (1 << 63) - 1
"""The largest whole number of any setting: programs that read it as JSON know no larger ones."""


def flaw_in_bounds(value: Any, setting: Setting) -> str:
    """The reason why a number is beyond the bounds that its setting declares; "": it is not, or is no number."""
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        return f"is too large a number: {MAX_WHOLE} is the most for any setting"
    low, high, unit = setting.min, setting.max, setting.unit
    if value is None or (low is None and setting.above is None):
        return ""
    is_low = value < low if setting.above is None else value <= setting.above
    if math.isfinite(value) and not is_low and (high is None or value <= high):
        return ""
    if low is not None and high is not None:
        between = f"{_size(low)} to {_size(high)}, in" if unit == "bytes" else f"{low} to {high}"
        return f"must be from {between} {unit}, not {value}"
    if setting.above is not None:
        return f"must be a number of {unit} above {setting.above}"
    return f"must be a number of {unit}, " + (f"0 for {setting.zero}" if setting.zero else f"{low} or more")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} TiB"
