"""The answers that an entry was made of, found again in its settings, so that an update need not ask. Pure.

Settings that were changed by hand are answers as well, as long as they fit the old way; arguments that do not fit it
are not guessed at. A value that is just the publisher's default is none, so that a new default counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from config.registry.entry import Answers, texts
from config.registry.slots import Asked, Piece, Slot, as_setting, fill_template, literal_parts
from config.registry.ways import Way

_NOTHING = Answers({})
Found = dict[str, tuple[Piece, ...]]


def answers_in(way: Way, settings: Mapping[str, Any]) -> tuple[Found, bool]:
    """The answers in the settings of an upstream that was made by `way`, as files have them; and whether its arguments
    fit that way."""
    found: Found = {}
    for slot in way.slots:
        table = settings.get("env" if slot.place == "variable" else "headers")
        if slot.place in ("variable", "header") and isinstance(table, dict) and isinstance(table.get(slot.name), str):
            found |= _in_text(slot, table[slot.name]) or {}
    if way.kind == "remote":
        [address] = [slot for slot in way.slots if slot.place == "address"]
        url = settings.get("url")
        in_url = _in_text(address, url) if isinstance(url, str) else None
        return found | (in_url or {}), in_url is not None
    words = settings.get("args")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return found, False
    in_words = _in_arguments(way, [settings.get("command"), *words])
    return found | (in_words or {}), in_words is not None


def _in_arguments(way: Way, words: Sequence[Any]) -> Found | None:
    """The answers in a command line; None: it does not fit."""
    at = len(way.command)
    if tuple(words[:at]) != way.command:
        return None
    found: Found = {}
    if way.image:
        mounts = []
        while at + 1 < len(words) and words[at] in ("--mount", "-e"):
            mounts += [words[at + 1]] if words[at] == "--mount" else []
            at += 2
        if at >= len(words) or words[at] != way.image:
            return None
        at += 1
        for text in mounts:
            fits = (_in_text(slot, text) for slot in way.slots if slot.place == "mount")
            joined = next((each for each in fits if each is not None), None)
            if joined is None:
                return None
            found = _join(found, joined)
    slots = [slot for slot in way.slots if slot.place == "argument"]
    in_rest = _in_words(slots, list(words[at:]))
    return None if in_rest is None else _join(found, in_rest)


def _in_words(slots: Sequence[Slot], words: Sequence[str]) -> Found | None:
    """The answers in the arguments of a package, read from the left without ever going back."""
    found: Found = {}
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


def _take(slot: Slot, words: Sequence[str], at: int, rest: int) -> tuple[int, Found] | None:
    """The number of words at `at` that belong to a slot, and the answers in them; None: none do."""
    if at >= len(words):
        return None
    word = words[at]
    if not slot.name:
        answers = _in_text(slot, word) if len(words) - at > rest else None
        return None if answers is None else (1, answers)
    name = as_setting([Piece(slot.name)])
    if slot.template == "" and not slot.asked:
        return (1, {}) if word == name else None
    if slot.name.startswith("--") or slot.name.endswith("="):
        before = f"{name.removesuffix('=')}="
        answers = _in_text(slot, word.removeprefix(before)) if word.startswith(before) else None
        return None if answers is None else (1, answers)
    answers = _in_text(slot, words[at + 1]) if word == name and at + 1 < len(words) else None
    return None if answers is None else (2, answers)


def _least(slot: Slot) -> int:
    """The least number of words that a slot makes."""
    if slot.asked and not all(asked.required or asked.input.default for asked in slot.asked):
        return 0
    joined = not slot.name or slot.name.startswith("--") or slot.name.endswith("=")
    return 1 if joined or (slot.template == "" and not slot.asked) else 2


def _in_text(slot: Slot, text: str) -> Found | None:
    """The answers in the text of a slot; None: it does not fit."""
    if slot.template is None:
        [asked] = slot.asked
        return {} if text == _default(asked.input.default) else {asked.key: (_answer(asked, text),)}
    if not slot.asked:
        return {} if [text] == texts(slot, _NOTHING) else None
    keys = {asked.variable: asked for asked in slot.asked}
    found: Found = {}
    for name, value in _between(slot, text) or ():
        if name not in keys:
            continue
        asked = keys[name]
        answer = _answer(asked, value)
        if found.setdefault(asked.key, (answer,)) != (answer,):
            return None
    if found.keys() != {asked.key for asked in slot.asked}:
        return None
    defaults = {asked.key: _default(asked.input.default) for asked in slot.asked}
    return {key: pieces for key, pieces in found.items() if _setting_of(pieces[0]) != defaults[key]}


def _answer(asked: Asked, text: str) -> Piece:
    """The answer, where settings have `text`. What was chosen among the publisher's words is the publisher's."""
    chosen = next((each for each in asked.input.choices if text == _default(each)), None)
    return Piece(text, typed=True) if chosen is None else Piece(chosen)


def _setting_of(piece: Piece) -> str:
    return as_setting([piece])


def _default(text: str | None) -> str | None:
    return None if text is None else as_setting([Piece(text)])


def _between(slot: Slot, text: str) -> Iterator[tuple[str, str]] | None:
    """The names of the template and what stands in their places; None: it does not fit."""
    known = {asked.variable: "" for asked in slot.asked}
    parts = literal_parts(slot.template or "", known)
    found = []
    first, name = parts[0]
    first = _literal(slot, first)
    if not text.startswith(first):
        return None
    at = len(first)
    for literal, following in parts[1:]:
        literal = _literal(slot, literal)
        if following == "":  # the end
            if not text.endswith(literal) or len(text) - len(literal) < at:
                return None
            end = len(text) - len(literal)
        else:
            end = text.find(literal, at) if literal else at
        if end < 0 or (text.startswith("${", at) and text[:at].endswith("$")):
            return None  # nowhere; or within what is escaped, and the rest would be a reference
        found.append((name, text[at:end]))
        at, name = end + len(literal), following
    return iter(found)


def _literal(slot: Slot, text: str) -> str:
    """A part of a template without answers, as settings have it."""
    fixed = dict(slot.fixed)
    return as_setting(fill_template(text, lambda name: Piece(fixed[name]) if name in fixed else None))


def _join(one: Found, other: Found) -> Found:
    """Both; a key in both has the values of both."""
    return {key: one.get(key, ()) + other.get(key, ()) for key in {**one, **other}}
