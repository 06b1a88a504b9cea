"""The parts that settings are declared with: the facts about one setting, a text that does not show itself, and the
reading of such declarations.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct


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
    """A regular expression for editors, anchored at the start; `loading.check` is stricter."""
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
    adds: bool = False
    """True if a server's list is added to that of `[defaults]`, and does not replace it."""
    instead_of: tuple[str, ...] = ()
    """Names that other programs have for it, for hints about unknown settings."""


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

    Raises:
        TypeError: one has no `Setting`.
    """
    hints = get_type_hints(type, include_extras=True)
    fields, shared = msgspec.structs.fields(type), len(getattr(type.__base__, "__struct_fields__", ()))
    ordered = (*fields[shared:], *fields[:shared])
    return {field.encode_name: _declaration(field, hints[field.name]) for field in ordered}


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


def secrets_of(values: Struct) -> Iterator[str]:
    """The texts of all secrets in a struct of `settings` and in its tables."""
    for declared in declarations(type(values)).values():
        value = getattr(values, declared.attribute)
        if isinstance(value, Struct):
            yield from secrets_of(value)
        elif declared.holds_secrets:
            yield from (secret.reveal() for secret in value.values())
        elif declared.named is not None:
            for each in value.values():
                yield from secrets_of(each)
        elif isinstance(value, Secret):
            yield value.reveal()
        elif isinstance(value, tuple):
            yield from (each.reveal() for each in value if isinstance(each, Secret))
            for each in value if declared.rows is not None else ():
                yield from secrets_of(each)
