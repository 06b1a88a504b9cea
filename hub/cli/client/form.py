"""Forms that servers ask people to fill in (`elicitation/create`, mode `form`), for a terminal. Pure.

Their schemas are flat: strings, numbers, booleans, one or many of a list (MCP 2025-11-25, client/elicitation).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

MAX_FIELDS: Final = 100
MAX_CHOICES: Final = 200
YES: Final = frozenset({"y", "yes", "true", "1"})
NO: Final = frozenset({"n", "no", "false", "0"})
FORMATS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "email": (re.compile(r"[^@\s]+@[^@\s]+"), "an e-mail address"),
    "uri": (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"), "a URI such as https://example.com"),
    "date": (re.compile(r"\d{4}-\d{2}-\d{2}"), "a date such as 2026-07-28"),
    "date-time": (re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*"), "a time such as 2026-07-28T09:30:00Z"),
}


class Invalid(ValueError):
    """A text is no answer to a field; says what is expected."""


class FormChoice(NamedTuple):
    """One of the values that a field takes."""

    value: str
    title: str


class Field(NamedTuple):
    """One question of a form."""

    name: str
    title: str
    description: str
    kind: str
    """string, number, integer, boolean, or array (many of `choices`)."""
    choices: Sequence[FormChoice]
    required: bool
    default: Any
    """None: there is none."""
    schema: Mapping[str, Any]

    def hint(self) -> str:
        """The kind of answer that is expected, for people; "": any text."""
        if self.kind == "boolean":
            return "y or n"
        if self.choices:
            return "numbers, such as 1,3" if self.kind == "array" else f"a number, 1 to {len(self.choices)}"
        if self.kind in ("number", "integer"):
            return "a whole number" if self.kind == "integer" else "a number"
        pattern = FORMATS.get(str(self.schema.get("format")))
        return pattern[1] if pattern else ""

    def read(self, text: str) -> Any:
        """The value that `text` means.

        Raises:
            Invalid: it is no answer to this.
        """
        if self.kind == "boolean":
            return _boolean(text)
        if self.kind == "array":
            return self._many([part.strip() for part in text.split(",") if part.strip()])
        if self.choices:
            return self._one(text)
        if self.kind in ("number", "integer"):
            return self._number(text)
        return self._text(text)

    def _one(self, text: str) -> str:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= len(self.choices):
            return self.choices[int(text) - 1].value
        for choice in self.choices:
            if text.casefold() in (choice.value.casefold(), choice.title.casefold()):
                return choice.value
        raise Invalid(f"expected {self.hint()}")

    def _many(self, parts: Sequence[str]) -> list[str]:
        values = list(dict.fromkeys(map(self._one, parts)))
        self._within(len(values), "minItems", "maxItems", "choices")
        return values

    def _number(self, text: str) -> int | float:
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise Invalid(f"expected {self.hint()}") from None
        if not math.isfinite(value):
            raise Invalid(f"expected {self.hint()}")
        self._within(value, "minimum", "maximum", "")
        return value

    def _text(self, text: str) -> str:
        self._within(len(text), "minLength", "maxLength", "characters")
        expected = FORMATS.get(str(self.schema.get("format")))
        if expected and not expected[0].fullmatch(text):
            raise Invalid(f"expected {expected[1]}")
        return text

    def _within(self, value: float, least: str, most: str, unit: str) -> None:
        low, high = self.schema.get(least), self.schema.get(most)
        if isinstance(low, int | float) and value < low:
            raise Invalid(f"expected at least {low} {unit}".rstrip())
        if isinstance(high, int | float) and value > high:
            raise Invalid(f"expected at most {high} {unit}".rstrip())


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The questions of a form, in its order.

    Raises:
        Invalid: it is no form that can be asked here.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        raise Invalid(f"its form has no questions, or more than {MAX_FIELDS}")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    return [_field(name, each, name in wanted) for name, each in properties.items()]


def _field(name: str, schema: Any, required: bool) -> Field:
    if not isinstance(schema, dict):
        raise Invalid(f"its question {name} is no schema")
    kind = schema.get("type", "string")
    if kind not in ("string", "number", "integer", "boolean", "array"):
        raise Invalid(f"its question {name} is of the type {kind}, which no form has")
    items = schema.get("items") if kind == "array" else schema
    choices = list(_choices(items if isinstance(items, dict) else {}))[: MAX_CHOICES + 1]
    if len(choices) > MAX_CHOICES or (kind == "array" and not choices):
        raise Invalid(f"its question {name} has no choices, or more than {MAX_CHOICES}")
    title, description = schema.get("title"), schema.get("description")
    return Field(
        name,
        title if isinstance(title, str) and title else name,
        description if isinstance(description, str) else "",
        kind,
        choices,
        required,
        schema.get("default"),
        schema,
    )


def _choices(schema: Mapping[str, Any]) -> Iterator[FormChoice]:
    """The values of `enum` (with `enumNames`), or of `oneOf` or `anyOf` with titles."""
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        yield from (
            FormChoice(value, str(title)) for value, title in zip(values, titles, strict=True) if _is_text(value)
        )
        return
    for branch in schema.get("oneOf") or schema.get("anyOf") or ():
        if isinstance(branch, dict) and _is_text(branch.get("const")):
            yield FormChoice(branch["const"], str(branch.get("title") or branch["const"]))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _boolean(text: str) -> bool:
    if text.casefold() in YES | NO:
        return text.casefold() in YES
    raise Invalid("expected y or n")
