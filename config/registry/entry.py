"""The entry of an upstream, made of a way and of answers. Pure.

The same answers make the same entry, so that what an update changes is what the publisher changed.
"""

from collections.abc import Iterator
from typing import Any

from config.registry.names import Source
from config.registry.questions import Answers
from config.registry.refusals import NotRunnable
from config.registry.slots import Slot
from config.registry.texts import Piece, as_setting, filled
from config.registry.ways import Way


def entry(way: Way, answers: Answers, source: Source) -> dict[str, Any]:
    """The settings of the upstream, in the order in which they are written.

    Raises:
        NotRunnable: an address came out that is none.
    """
    found = _of_remote(way, answers) if way.kind == "remote" else _of_package(way, answers)
    return {**found, "source": str(source)}


def words_without_answers(way: Way) -> list[str]:
    """The command line, with the keys in capitals where answers go; for people. Optional arguments are in brackets."""
    words = list(way.command)
    options = [slot for slot in way.slots if slot.place == "mount"]
    rest = [slot for slot in way.slots if slot.place == "argument"]
    for slot in options:
        words += [slot.name, _shown(slot)]
    if way.image:
        words += [word for slot in way.slots if slot.place == "variable" for word in ("-e", slot.name)] + [way.image]
    return words + [word for slot in rest for word in _shown_words(slot)]


def _of_package(way: Way, answers: Answers) -> dict[str, Any]:
    program, *words = way.command
    env = {slot.name: text for slot in way.slots if slot.place == "variable" for text in texts(slot, answers)}
    for slot in way.slots:
        if slot.place == "mount":
            words += [word for text in texts(slot, answers) for word in (slot.name, text)]
    if way.image:
        words += [word for name in env for word in ("-e", name)] + [way.image]
    for slot in way.slots:
        if slot.place == "argument":
            words += words_of(slot, answers)
    found: dict[str, Any] = {"command": program, "args": words}
    return found | ({"env": env} if env else {})


def _of_remote(way: Way, answers: Answers) -> dict[str, Any]:
    url = "".join(text for slot in way.slots if slot.place == "address" for text in texts(slot, answers))
    if not url.startswith(("https://", "http://", "${")):
        raise NotRunnable("its address is no URL")
    found: dict[str, Any] = {"url": url}
    headers = {slot.name: text for slot in way.slots if slot.place == "header" for text in texts(slot, answers)}
    if headers:
        found["headers"] = headers
    return found | ({"transport": way.transport} if way.transport else {})


def texts(slot: Slot, answers: Answers) -> list[str]:
    """The texts of a slot as settings have them: one, none if it is left out, or several if it is repeated."""
    return [as_setting(pieces) for pieces in _pieces(slot, answers)]


def _pieces(slot: Slot, answers: Answers) -> Iterator[list[Piece]]:
    template = slot.template
    if template is None:
        [asked] = slot.asked
        yield from ([piece] for piece in answers.values.get(asked.key, ()))
        return
    if any(asked.key not in answers.values for asked in slot.asked):
        return  # optional, and nothing was said
    keys = {asked.variable: asked.key for asked in slot.asked}
    turns = max((len(answers.values[key]) for key in keys.values()), default=1) if slot.repeated else 1
    for turn in range(turns):
        yield filled(template, lambda name, turn=turn: _value(slot, name, keys, answers, turn))  # type: ignore[misc]


def _value(slot: Slot, name: str, keys: dict[str, str], answers: Answers, turn: int) -> Piece | None:
    if name in keys:
        return answers.piece(keys[name], turn)
    return next((Piece(value) for known, value in slot.fixed if known == name), None)


def words_of(slot: Slot, answers: Answers) -> list[str]:
    """The words of an argument."""
    if slot.name and slot.template == "" and not slot.asked:
        return [as_setting([Piece(slot.name)])]
    found = []
    for pieces in _pieces(slot, answers):
        if not slot.name:
            found.append(as_setting(pieces))
        elif slot.name.startswith("--") or slot.name.endswith("="):
            found.append(as_setting([Piece(f"{slot.name.removesuffix('=')}="), *pieces]))
        else:
            found += [as_setting([Piece(slot.name)]), as_setting(pieces)]
    return found


def _shown(slot: Slot) -> str:
    keys = {asked.variable: asked.key for asked in slot.asked}
    if slot.template is None:
        return keys[""].upper()
    return "".join(piece.text for piece in filled(slot.template, lambda name: _shown_value(slot, name, keys)))


def _shown_value(slot: Slot, name: str, keys: dict[str, str]) -> Piece | None:
    if name in keys:
        return Piece(keys[name].upper())
    return next((Piece(value) for known, value in slot.fixed if known == name), None)


def _shown_words(slot: Slot) -> list[str]:
    if slot.name and slot.template == "" and not slot.asked:
        return [slot.name]
    text = _shown(slot)
    if slot.name.startswith("--") or slot.name.endswith("="):
        words = [f"{slot.name.removesuffix('=')}={text}"]
    else:
        words = [slot.name, text] if slot.name else [text]
    optional = slot.asked and not any(asked.required or asked.input.default for asked in slot.asked)
    return [f"[{' '.join(words)}]"] if optional else words
