"""Flags of definitions that read as if they were meant to steer a model. Pure.

A flag is no defence: it says where to look first.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from hub.rules.fingerprints import INSTRUCTIONS, Definition, read, split_key, words_of

_PHRASES: Final = re.compile(
    r"(?i)\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|other|all)\b.{0,40}\b(?:instructions?|rules?|tools?)"
    r"|\b(?:do not|don't|never)\b.{0,20}\b(?:tell|mention|inform|show|reveal|notify)\b"
    r"|\bwithout (?:telling|asking|informing|notifying)\b"
    r"|\b(?:before|after|instead of) (?:using|calling|invoking|running) (?:this|any|every|all|other)\b"
    r"|\bsystem prompt\b|<\s*/?\s*(?:important|system|instructions?|secret)\s*>"
    r"|\b(?:you must|always) (?:first |also )?(?:call|read|send|include|pass|use)\b"
    r"|(?:~|\$HOME|/home/\w+)/\.\w+|\bid_rsa\b|\.env\b|\bmcp\.json\b"
)
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
MAX_FLAGS: Final = 50
MAX_NAMED: Final = 3
MAX_QUOTED: Final = 80


def flags(definitions: Mapping[str, Definition], others: Collection[str]) -> tuple[str, ...]:
    """Sentences about definitions that read like instructions, or name tools of `others`, by their names."""
    found = []
    for key, definition in definitions.items():
        text = "\n".join(text for _, text in words_of(read(definition)))
        name = split_key(key)[1]
        if key != INSTRUCTIONS and (phrase := _PHRASES.search(text)):
            found.append(f'{name} reads like an instruction: "{phrase[0][:MAX_QUOTED]}"')
        if named := sorted(set(_WORD.findall(text)).intersection(others)):
            found.append(f"{name} names tools of other servers: {', '.join(named[:MAX_NAMED])}")
    return tuple(found[:MAX_FLAGS])
