"""The answers that an entry was made of, found again in its settings, so that an update need not ask. Pure.

Settings that were changed by hand are answers as well, as long as they fit the old way; arguments that do not fit it
are not guessed at. A value that is just the publisher's default is no answer, so that a new default counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from config.registry.entry_of_answers import Answers, texts
from config.registry.places_to_fill import Asked, Piece, Slot, as_setting, fill_template, literal_parts
from config.registry.ways_to_run import Way


def answers_in(way: Way, settings: Mapping[str, Any]) -> tuple[Answers, bool]:
    """The answers in the settings of an upstream that was made by `way`, as files have them; and whether its arguments
    fit that way."""
    found: dict[str, tuple[Piece, ...]] = {}
    for slot in way.slots:
        table = settings.get({"variable": "env", "header": "headers"}.get(slot.place, ""))
        if isinstance(table, dict) and isinstance(text := table.get(slot.name), str):
            found |= _in_text(slot, text) or {}
    if way.kind == "remote":
        url = settings.get("url")
        rest = _in_text(way.slots_at("address")[0], url) if isinstance(url, str) else None
    else:
        words = settings.get("args")
        fits = isinstance(words, list) and all(isinstance(word, str) for word in words)
        rest = _in_command(way, [settings.get("command"), *(words or ())]) if fits else None
    return found | dict(rest or {}), rest is not None


def _in_command(way: Way, words: Sequence[Any]) -> Answers | None:
    """The answers in a command line; None: it does not fit."""
    at = len(way.command)
    if tuple(words[:at]) != way.command:
        return None
    found: Answers = {}
    if way.image:
        mounts = []
        while at + 1 < len(words) and words[at] in ("--mount", "-e"):
            mounts += [words[at + 1]] if words[at] == "--mount" else []
            at += 2
        if at >= len(words) or words[at] != way.image:
            return None
        at += 1
        for text in mounts:
            fits = (_in_text(slot, text) for slot in way.slots_at("mount"))
            answers = next((each for each in fits if each is not None), None)
            if answers is None:
                return None
            found = _join(found, answers)
    rest = _in_words(way.slots_at("argument"), words[at:])
    return None if rest is None else _join(found, rest)


def _in_words(slots: Sequence[Slot], words: Sequence[str]) -> Answers | None:
    """The answers in the arguments of a package, read from the left without ever going back."""
    found: Answers = {}
    at = 0
    for number, slot in enumerate(slots):
        rest = sum(_least(each) for each in slots[number + 1 :])
        turns = 0
        while (slot.repeated or not turns) and (taken := _take(slot, words, at, rest)) is not None:
            size, answers = taken
            found = _join(found, answers)
            at, turns = at + size, turns + 1
        if not turns and _least(slot):
            return None
    return found if at == len(words) else None


def _take(slot: Slot, words: Sequence[str], at: int, rest: int) -> tuple[int, Answers] | None:
    """The number of words at `at` that belong to a slot, and the answers in them; None: none do. `rest`: the number of
    words that the slots behind it need."""
    left = len(words) - at
    if left < 1:
        return None
    size, text, name = 1, words[at], as_setting([Piece(slot.name)])
    if slot.is_switch:
        return (1, {}) if text == name else None
    if slot.is_joined:
        before = f"{name.removesuffix('=')}="
        if not text.startswith(before):
            return None
        text = text.removeprefix(before)
    elif slot.name:
        if text != name or left < 2:
            return None
        size, text = 2, words[at + 1]
    elif left <= rest:
        return None
    answers = _in_text(slot, text)
    return None if answers is None else (size, answers)


def _least(slot: Slot) -> int:
    """The least number of words that a slot makes."""
    if slot.asked and not all(asked.required or asked.input.default for asked in slot.asked):
        return 0
    return 2 if slot.name and not slot.is_joined and not slot.is_switch else 1


def _in_text(slot: Slot, text: str) -> Answers | None:
    """The answers in the text of a slot; None: it does not fit."""
    if slot.template is not None and not slot.asked:
        return {} if [text] == texts(slot, {}) else None
    values = {"": text} if slot.template is None else _values(slot, slot.template, text)
    if values is None:
        return None
    return {
        asked.key: (_answer(asked, value),)
        for asked in slot.asked
        if (value := values[asked.variable]) != _escape(asked.input.default)
    }


def _answer(asked: Asked, text: str) -> Piece:
    """The answer, where settings have `text`. What was chosen among the publisher's words is the publisher's."""
    chosen = next((each for each in asked.input.choices if text == _escape(each)), None)
    return Piece(text, typed=True) if chosen is None else Piece(chosen)


def _escape(text: str | None) -> str | None:
    """A text of the publisher as settings have it."""
    return None if text is None else as_setting([Piece(text)])


def _values(slot: Slot, template: str, text: str) -> dict[str, str] | None:
    """The value of each variable in a text that was made of the template, read from the left; None: it does not fit."""
    fixed = {name: Piece(value) for name, value in slot.fixed}
    parts = literal_parts(template, {asked.variable for asked in slot.asked})
    (begin, name), *behind = [(as_setting(fill_template(literal, fixed)), name) for literal, name in parts]
    if not text.startswith(begin):
        return None
    values: dict[str, str] = {}
    rest = text.removeprefix(begin)
    for literal, following in behind:
        if rest.startswith("${") and text.removesuffix(rest).endswith("$"):
            return None  # the value would begin within what is escaped, and be a reference
        end = rest.find(literal) if following else len(rest) - len(literal)
        if not rest.startswith(literal, end) or values.setdefault(name, rest[:end]) != rest[:end]:
            return None
        rest, name = rest[end + len(literal) :], following
    return values


def _join(one: Answers, other: Answers) -> Answers:
    """Both; a key in both has the values of both."""
    return {key: one.get(key, ()) + other.get(key, ()) for key in {**one, **other}}
