"""The person at the terminal, for the servers that a command calls: sees progress and logs, fills in forms, opens
pages. Sampling is not offered: there is no model here."""

import json
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

from hub.cli.client.form import Field, Invalid, fields
from hub.cli.keyboard import typed_line
from hub.wire.printable import printable

ELICIT: Final = "elicitation/create"
LOG_CHARS: Final = 2000
Object = dict[str, Any]
CAPABILITIES: Final[Object] = {"elicitation": {"form": {}, "url": {}}}


class NobodyThere(Exception):
    """The person ended the input instead of answering."""


class Terminal:
    """A person at a terminal. What is told and asked goes to `show`, so that standard output has the result alone."""

    def __init__(
        self, *, attended: bool, show: Callable[[str], None], live: Callable[[str], None], lines: TextIO | None = None
    ) -> None:
        """`attended`: somebody can answer. `live` draws the last step of progress; `lines` are the answers."""
        self._attended = attended
        self._show = show
        self._live = live
        self._lines = lines or sys.stdin

    @property
    def capabilities(self) -> Object:
        """Client capabilities: questions only if somebody can answer."""
        return CAPABILITIES if self._attended else {}

    def told(self, method: str, params: Object) -> None:
        """Show a step of progress, or a line of a server's log."""
        if method == "notifications/progress":
            self._live(progress(params))
        elif method == "notifications/message":
            self._show(log_line(params))
        elif method == "notifications/elicitation/complete":
            self._show("the page reports that it is done")

    def asked(self, method: str, params: Object) -> Object | None:
        """Ask a server's question; None: it is none for people."""
        if method != ELICIT or not self._attended:
            return None
        self._live("")
        try:
            return self._page(params) if params.get("mode") == "url" else self._form(params)
        except NobodyThere:
            return {"action": "cancel"}

    # --- questions

    def _form(self, params: Object) -> Object:
        self._show(f"A server asks: {_text(params.get('message'))}")
        schema = params.get("requestedSchema")
        try:
            questions = fields(schema if isinstance(schema, dict) else {})
        except Invalid as error:
            self._show(f"It cannot be answered here: {printable(str(error))}")
            return {"action": "cancel"}
        content: Object = {}
        for question in questions:
            self._fill(question, content)
        return self._decide({"content": content})

    def _fill(self, question: Field, content: Object) -> None:
        """Ask one question of a form until its answer is valid; nothing at all leaves out what is not required."""
        about = f": {_text(question.description)}" if question.description else ""
        self._show(f"{_text(question.title)}{about}")
        for number, choice in enumerate(question.choices, 1):
            self._show(f"  {number} {_text(choice.title)}")
        notes = [question.hint(), "" if question.required else "Enter leaves it out"]
        if question.default is not None:
            notes[1] = f"Enter takes {_text(json.dumps(question.default, ensure_ascii=False))}"
        shown = "; ".join(filter(None, notes))
        while True:
            text = self._answer(f"({shown}) " if shown else "")
            if not text and question.default is not None:
                content[question.name] = question.default
                return
            if not text and not question.required:
                return
            try:
                content[question.name] = question.read(text)
                return
            except Invalid as error:
                self._show(str(error))

    def _page(self, params: Object) -> Object:
        url = _text(params.get("url"))
        self._show(f"A server asks: {_text(params.get('message'))}")
        self._show("It wants you to open this page, and will not see what you enter there, nor will the hub:")
        self._show(f"  {url}")
        return self._decide({})

    def _decide(self, accepted: Object) -> Object:
        """The person's decision: send it, decline, or cancel."""
        while True:
            answer = self._answer("[a]ccept, [d]ecline or [c]ancel? ").lower()[:1]
            if answer == "a":
                return {"action": "accept", **accepted}
            if answer in ("d", "c"):
                return {"action": {"d": "decline", "c": "cancel"}[answer]}

    def _answer(self, prompt: str) -> str:
        print(f"{prompt}> ", end="", file=sys.stderr, flush=True)
        line = typed_line(self._lines)
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
