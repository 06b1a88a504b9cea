"""Differences between a definition that was approved and one that is listed, for a person. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hub.control.pin_messages import PinChange, WordChange
from hub.rules.fingerprints import Definition, fingerprint, read, words_of

_HINTS: Final = (
    ("readOnlyHint", False, True, "says that it only reads"),
    ("destructiveHint", True, False, "says that it destroys nothing"),
    ("idempotentHint", False, True, "says that it may be repeated"),
    ("openWorldHint", True, False, "says that it stays in its own world"),
)
"""Hints with what their absence means, the value that makes a tool look safer, and what that says."""
_PROPERTIES: Final = "inputSchema.properties"


def describe(
    key: str, old: Definition | None, new: Definition | None, *, held: bool, approved_words: str | None
) -> PinChange:
    """The change of one definition. `approved_words`: the hash of the words that were approved, None: none were. `old`
    may be lost all the same."""
    change = "gone" if new is None else "new" if approved_words is None else "changed"
    if new is None:
        return PinChange(item=key, change=change)
    before, after = {} if old is None else read(old), read(new)
    words = tuple(_exchanges(before, after))
    hints, parameters = tuple(find_looser_hints(before, after)), tuple(_parameters(before, after))
    if old is None:  # new, or nobody knows more of it than its hash
        words, parameters = tuple(each for each in words if "." not in each.where or approved_words), ()
        only_form = fingerprint(key, new).words == approved_words
    else:
        words = tuple(each for each in words if each.where != _PROPERTIES)  # parameters tell of these
        only_form = not (words or hints or parameters)
    return PinChange(
        item=key, change=change, held=held, words=words, hints=hints, parameters=parameters, only_form=only_form
    )


def _exchanges(before: Any, after: Any) -> Iterator[WordChange]:
    """Words that differ, place by place; of several at one place, in their order."""
    old, new = (words_of(each) if each else [] for each in (before, after))
    lost, gained = Counter(old) - Counter(new), Counter(new) - Counter(old)
    for place in dict.fromkeys(where for where, _ in (*old, *new)):
        gone = [text for (where, text), count in lost.items() if where == place for _ in range(count)]
        come = [text for (where, text), count in gained.items() if where == place for _ in range(count)]
        for at in range(max(len(gone), len(come))):
            yield WordChange(
                where=place, old=gone[at] if at < len(gone) else None, new=come[at] if at < len(come) else None
            )


def find_looser_hints(before: Any, after: Any) -> Iterator[str]:
    """What a tool says of itself after that would make it look safer than before."""
    old, new = (_members(each, "annotations") for each in (before, after))
    for name, absent, safer, text in _HINTS:
        if new.get(name, absent) is safer and old.get(name, absent) is not safer:
            yield text


def _parameters(before: Any, after: Any) -> Iterator[str]:
    old, new = _arguments(before), _arguments(after)
    for name in old.keys() - new.keys():
        yield f"- {name}"
    for name, what in new.items():
        if name not in old:
            yield f"+ {name} ({what})"
        elif old[name] != what:
            yield f"{name}: {old[name]} -> {what}"


def _arguments(value: Any) -> dict[str, str]:
    """The arguments of a tool or prompt, with their type, and whether they have to be there."""
    if isinstance(value, dict) and isinstance(listed := value.get("arguments"), list):
        named = [each for each in listed if isinstance(each, dict)]
        return {str(each.get("name")): "required" if each.get("required") is True else "optional" for each in named}
    schema = _members(value, "inputSchema")
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    found = {}
    for name, each in _members(schema, "properties").items():
        kind = each.get("type", "any type") if isinstance(each, dict) else "any type"
        found[name] = f"{kind}, required" if name in needed else str(kind)
    return found


def _members(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
