"""The person at the terminal, for the servers that a command calls: sees progress and logs, fills in forms, opens
pages. Sampling is not offered: there is no model here.

Schemas of forms are flat: strings, numbers, booleans, one or many of a list (MCP 2025-11-25, client/elicitation).
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hub.cli.context import CommandFailed, Output, ask, ask_hub
from hub.cli.keyboard import read_line
from hub.control.methods import APPROVAL_DENY, APPROVAL_GIVE, APPROVAL_SHOW
from hub.wire.printable import printable

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


class Field(NamedTuple):
    """One question of a form."""

    name: str
    title: str
    description: str
    kind: str
    """string, number, integer, boolean, or array (many of `choices`)."""
    choices: Sequence[tuple[str, str]]
    """The values that it takes, each with a title."""
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
        """The value that `text` means. Raises: Invalid, if it is no answer to this."""
        if self.kind == "boolean":
            if text.casefold() not in YES | NO:
                raise Invalid("expected y or n")
            return text.casefold() in YES
        if self.kind == "array":
            values = list(dict.fromkeys(self._one(part.strip()) for part in text.split(",") if part.strip()))
            self._within(len(values), "minItems", "maxItems", "choices")
            return values
        if self.choices:
            return self._one(text)
        if self.kind in ("number", "integer"):
            return self._number(text)
        return self._text(text)

    def _one(self, text: str) -> str:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= len(self.choices):
            return self.choices[int(text) - 1][0]
        for value, title in self.choices:
            if text.casefold() in (value.casefold(), title.casefold()):
                return value
        raise Invalid(f"expected {self.hint()}")

    def _number(self, text: str) -> int | float:
        value = math.nan
        with suppress(ValueError):
            value = int(text) if self.kind == "integer" else float(text)
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
    """The questions of a form, in its order. Raises: Invalid, if it is no form that can be asked here."""
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
    title, about = schema.get("title"), schema.get("description")
    title = title if isinstance(title, str) and title else name
    about = about if isinstance(about, str) else ""
    return Field(name, title, about, kind, choices, required, schema.get("default"), schema)


def _choices(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of `enum` (with `enumNames`), or of `oneOf` or `anyOf` with titles."""
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = list(zip(values, titles, strict=True))
    else:
        branches = [each for each in schema.get("oneOf") or schema.get("anyOf") or () if isinstance(each, dict)]
        pairs = [(each.get("const"), each.get("title") or each.get("const")) for each in branches]
    yield from ((value, str(title)) for value, title in pairs if isinstance(value, str))


ELICIT: Final = "elicitation/create"
LOG_CHARS: Final = 2000
Object = dict[str, Any]
CAPABILITIES: Final[Object] = {"elicitation": {"form": {}, "url": {}}}


class NobodyThere(Exception):
    """The person ended the input instead of answering."""


class Terminal(NamedTuple):
    """A person at a terminal."""

    attended: bool
    """Somebody can answer."""
    show: Callable[[str], None]
    """Shows what is told and asked, so that standard output has the result alone."""
    live: Callable[[str], None]
    """Draws the last step of progress."""

    @property
    def capabilities(self) -> Object:
        """Client capabilities: questions only if somebody can answer."""
        return CAPABILITIES if self.attended else {}

    def told(self, method: str, params: Object) -> None:
        """Show a step of progress, or a line of a server's log."""
        if method == "notifications/progress":
            self.live(progress(params))
        elif method == "notifications/message":
            self.show(log_line(params))
        elif method == "notifications/elicitation/complete":
            self.show("the page reports that it is done")

    def answer(self, method: str, params: Object) -> Object | None:
        """Ask a server's question; None: it is none for people."""
        if method != ELICIT or not self.attended:
            return None
        self.live("")
        try:
            return self._page(params) if params.get("mode") == "url" else self._form(params)
        except NobodyThere:
            return {"action": "cancel"}

    # --- questions

    def _form(self, params: Object) -> Object:
        self.show(f"A server asks: {_text(params.get('message'))}")
        schema = params.get("requestedSchema")
        try:
            questions = fields(schema if isinstance(schema, dict) else {})
        except Invalid as error:
            self.show(f"It cannot be answered here: {printable(str(error))}")
            return {"action": "cancel"}
        content: Object = {}
        for question in questions:
            self._fill(question, content)
        return self._decide({"content": content})

    def _fill(self, question: Field, content: Object) -> None:
        """Ask one question of a form until its answer is valid; nothing at all leaves out what is not required."""
        about = f": {_text(question.description)}" if question.description else ""
        self.show(f"{_text(question.title)}{about}")
        for number, (_, title) in enumerate(question.choices, 1):
            self.show(f"  {number} {_text(title)}")
        notes = [question.hint(), "" if question.required else "Enter leaves it out"]
        if question.default is not None:
            notes[1] = f"Enter takes {_text(json.dumps(question.default, ensure_ascii=False))}"
        shown = "; ".join(filter(None, notes))
        while True:
            text = self._answer(f"({shown}) " if shown else "")
            if not text and (question.default is not None or not question.required):
                content |= {} if question.default is None else {question.name: question.default}
                return
            try:
                content[question.name] = question.read(text)
                return
            except Invalid as error:
                self.show(str(error))

    def _page(self, params: Object) -> Object:
        url = _text(params.get("url"))
        self.show(f"A server asks: {_text(params.get('message'))}")
        self.show("It wants you to open this page, and will not see what you enter there, nor will the hub:")
        self.show(f"  {url}")
        return self._decide({})

    def _decide(self, accepted: Object) -> Object:
        actions = {"a": {"action": "accept", **accepted}, "d": {"action": "decline"}, "c": {"action": "cancel"}}
        while (answer := self._answer("[a]ccept, [d]ecline or [c]ancel? ").lower()[:1]) not in actions:
            pass
        return actions[answer]

    def _answer(self, prompt: str) -> str:
        print(f"{prompt}> ", end="", file=sys.stderr, flush=True)
        line = read_line(sys.stdin)
        if not line:
            print(file=sys.stderr)
            raise NobodyThere
        return line.strip()


def progress(params: Object) -> str:
    """One step of progress: `3 of 10: what it does`."""
    done, total, message = (params.get(name) for name in ("progress", "total", "message"))
    numbers = f"{_number(done)} of {_number(total)}" if total is not None else _number(done)
    return f"{numbers}: {_text(message)}" if message else numbers


def log_line(params: Object) -> str:
    """A line of a server's log: `warning files: what it says`."""
    data = params.get("data")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    logger = params.get("logger")
    whose = f" {_text(logger)}" if isinstance(logger, str) and logger else ""
    return f"{_text(params.get('level'))}{whose}: {printable(text[:LOG_CHARS], keep=chr(10))}"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "?"


def _text(value: object) -> str:
    return printable(str(value) if value is not None else "", keep="\n")


REQUEST_ID: Final = re.compile(r"[A-Z][A-Z2-9]{3}")
"""The id of a request, which is no name of a server."""


def request_of(facts: Any) -> str:
    """The id of the request for which a call was refused with these facts; "": it was not for one."""
    id = facts.get("request") if isinstance(facts, dict) and facts.get("hub") == "approval_required" else None
    return id if isinstance(id, str) and REQUEST_ID.fullmatch(id) else ""


def may_call_again(facts: Any, output: Output, *, yes: bool) -> bool:
    """True if a call that was refused with these facts was approved here, by `--yes` or the person at the terminal, and
    may be made again. Raises CommandFailed: the person says no; ControlFailed: only a person may say yes, and none has
    run the command."""
    if not (id := request_of(facts)) or not (yes or output.is_attended()):
        return False
    lasting = "once"
    if not yes:
        found = ask_hub(APPROVAL_SHOW, id=id)
        output.progress.show(printable(found.text, keep="\n"))
        offers = [each for each in found.offers if each != "session"]  # which ends with this command
        answers = {text: each for each in (*offers, "no") for text in (each[0], each)}
        words = ", ".join(f"[{each[0]}]{each[1:]}" for each in offers)
        while (answer := ask(f"{words} or [n]o?")) not in answers:
            output.progress.show("type a letter or a whole word: once is this call, always all calls of it")
        if (lasting := answers[answer]) == "no":
            ask_hub(APPROVAL_DENY, id=id, heard=True)
            raise CommandFailed("not run: you said no")
    ask_hub(APPROVAL_GIVE, id=id, lasting=lasting)
    return True
