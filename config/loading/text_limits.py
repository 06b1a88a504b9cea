"""Limits of depth, entries and key lengths of a text, checked before it is parsed.

A parser takes memory and time for every entry, and some take far more than the text is long; so a text is refused here,
in one pass over it that keeps nothing. What stands in strings and comments does not count. Up to where a parser would
stop because the text is wrong, everything that a parser sees is seen here, too.
"""

import re
from typing import Any, Final

from config.diagnostics import Problem

MAX_DEPTH: Final = 64
MAX_KEY_PARTS: Final = 16
"""Parts of a dotted key of TOML; each is a table."""
MAX_SERVERS: Final = 1000
"""Servers in one file."""
MAX_TOML: Final = 50_000
"""Entries of a TOML document: every part of a key, value and element. Its parser takes a kilobyte for one."""
MAX_JSON: Final = 1_000_000
"""Entries of a JSON document: hosts keep their history beside the servers."""
MAX_YAML: Final = 50_000
"""Entries of a YAML document, each as often as aliases repeat it."""
MAX_NUMBER: Final = 4000
"""Characters of a number of YAML, some of which take the square of their length to read."""

# Every token is matched wherever it begins, also if the text ends within it, and never given up again: this keeps the
# pass linear.
_TOML: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']++|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[\[\]{}=.,\n]",
    re.S,
)
_STRING: Final = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT: Final = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_JSON: Final = re.compile(rf"{_STRING}|{_COMMENT}|[\[\]{{}}:,]", re.S)
_NUMBER: Final = re.compile(r"[-+0-9][0-9a-fA-Fx:_.]*")


def refuse_toml(text: str) -> None:
    """Raise Problem with the line, if a TOML document is too deep or too large, or has keys of too many parts."""
    _refuse(text, _TOML, "[{=,.", MAX_TOML)


def refuse_json(text: str) -> None:
    """Raise Problem with the line, if a JSON document, with comments or not, is too deep or too large."""
    _refuse(text, _JSON, "[{:,", MAX_JSON)


def _refuse(text: str, tokens: re.Pattern[str], counted: str, most: int) -> None:
    """Raise Problem, if a text is too deep, has more than `most` of the tokens `counted`, or too many dots in a row."""
    depth = dots = entries = 0
    for match in tokens.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth = max(0, depth - 1)
        elif token not in ".=:,\n":
            continue
        dots = dots + 1 if token == "." else 0
        entries += token in counted
        if depth > MAX_DEPTH or dots >= MAX_KEY_PARTS or entries > most:
            line = text.count("\n", 0, match.start()) + 1
            if dots >= MAX_KEY_PARTS:
                raise Problem((), f"has a key of more than {MAX_KEY_PARTS} parts; write fewer", line=line)
            raise too_deep(line) if depth > MAX_DEPTH else _too_many(most, line)


def refuse_yaml(text: str) -> None:
    """Refuse a YAML document that is too deep or too large, also by its aliases.

    Raises:
        Problem: so it is, with the line.
        yaml.YAMLError: it is no YAML.
    """
    import yaml

    opened: list[tuple[str | None, int]] = []  # the collections that have begun: anchor, and entries before
    heights = [0]  # the depth of the document, and of each of these
    known: dict[str | None, tuple[int, int]] = {}  # by anchor: entries and height of what it stands for
    entries = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        more, height = 1, 0
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            more, height = 0, heights.pop() + 1
            if anchor is not None:
                known[anchor] = entries - before, height
        elif isinstance(event, yaml.CollectionStartEvent):
            known.pop(event.anchor, None)  # until it is closed
            opened.append((event.anchor, entries))
            heights.append(0)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in {anchor for anchor, _ in opened}:
                raise Problem((), "is not YAML anyone wrote: its aliases make it endless", line=line)
            more, height = known.get(event.anchor, (1, 0))
        elif isinstance(event, yaml.ScalarEvent):
            if not event.style and len(event.value) > MAX_NUMBER and _NUMBER.fullmatch(event.value):
                raise Problem((), f"has a number of more than {MAX_NUMBER} digits", line=line)
            known[event.anchor] = 1, 0
        else:
            continue
        entries += more
        heights[-1] = max(heights[-1], height)
        if len(opened) + height > MAX_DEPTH:
            raise too_deep(line)
        if entries > MAX_YAML:
            raise _too_many(MAX_YAML, line)


def refuse_deep(tree: Any) -> None:
    """Raise Problem, if a tree is too deep: short keys of TOML within short keys add up."""
    if is_deep(tree, MAX_DEPTH + 1):
        raise too_deep(None)


def is_deep(tree: Any, most: int) -> bool:
    """True if tables and lists are nested in a tree on more than `most` levels."""
    level: list[Any] = [tree]
    for _ in range(most):
        values = (below for each in level for below in (each.values() if isinstance(each, dict) else each))
        level = [each for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def too_deep(line: int | None) -> Problem:
    """The problem of a document with too many levels."""
    return Problem((), f"is nested more than {MAX_DEPTH} levels deep; no configuration is", line=line)


def _too_many(most: int, line: int) -> Problem:
    return Problem((), f"has more than {most} entries; is it the right file?", line=line)
