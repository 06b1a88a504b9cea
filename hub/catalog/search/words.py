"""Words of a text, as the index compares them: in lower case, without their endings. Pure.

Where an ending is left out, the word as it was written follows, marked: people who say "issues" rather want
`list_issues` than `get_issue`, though both have to do with an "issu".

Names of tools are words that were written together: `createIssue`, `create_issue` and `create-issue` are "create" and
"issue". Texts without spaces between words (Chinese, Japanese, Korean) become every two neighbouring characters.
"""

import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

MAX_WORD_CHARS: Final = 40
"""Characters of a word that count; hashes and data are longer."""
MAX_RUN_CHARS: Final = 200
"""Characters of words written together that are taken apart."""
MAX_STEMS: Final = 2_048
"""Words whose stems are kept at hand: texts use the same ones again and again."""
EXACT: Final = "="
"""Mark in front of a word as it was written; no word begins so."""
EXACT_WEIGHT: Final = 0.5
"""The factor by which a word of a query counts more where it is written in the same way."""
_RUN: Final = re.compile(r"[^\W_]+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CJK: Final = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿\U00020000-\U0003ffff]+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_SHORTEST_STEM: Final = 3


def words(text: str) -> Iterator[str]:
    """The words of `text` in order, each without its ending and, if it has one, as it was written, marked `EXACT`; of
    `fileName` also the whole, first."""
    for whole, parts in _groups(text):
        for form in (whole, *parts):
            word = stem(form)
            yield word
            if word != form:
                yield EXACT + form


def query_words(text: str, known: Container[str]) -> dict[str, float]:
    """The words by which a query is answered, and how much each counts: no fillers, unless there is nothing else. Of
    `GitHub` the parts count only if the whole is not `known`."""
    found: dict[str, float] = {}
    fillers: dict[str, float] = {}
    for whole, parts in _groups(text):
        for form in parts if parts and stem(whole) not in known else (whole,):
            word = stem(form)
            counted = fillers if word in _FILLERS else found
            if word == form:
                counted[word] = 1 + EXACT_WEIGHT
            else:
                counted.setdefault(word, 1.0)
                counted[EXACT + form] = EXACT_WEIGHT
    return found or fillers


def _groups(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """The words of `text` in lower case; with one that is written together out of several, these."""
    for match in _RUN.finditer(text):
        run = match[0]
        if not run.isascii():
            for word in _other_words(run):
                yield word, ()
        elif run.islower() or run.isdigit() or run.isupper():
            yield run[:MAX_WORD_CHARS].lower(), ()
        else:
            parts = [part[:MAX_WORD_CHARS].lower() for part in _PART.findall(run[:MAX_RUN_CHARS])]
            yield run[:MAX_WORD_CHARS].lower(), parts if len(parts) > 1 else ()


@lru_cache(maxsize=MAX_STEMS)
def stem(word: str) -> str:
    """`word`, in lower case, without an English ending: "creates", "creating" and "creation" are "creat". Wrong stems
    do no harm as long as forms of one word meet, and words that differ rarely do."""
    if len(word) <= _SHORTEST_STEM:
        return word
    if word.endswith("ies") and len(word) > len("ties"):
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= _SHORTEST_STEM and _VOWEL.search(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    else:
        if word.endswith(("tion", "sion", "tor")) and len(word) > len("action"):
            word = word[: -len("or") if word.endswith("or") else -len("ion")]
    if len(word) > _SHORTEST_STEM and word.endswith(("e", "y")):
        word = word[:-1] + "i" * word.endswith("y")
    return word


def _other_words(run: str) -> Iterator[str]:
    at = 0
    for match in _CJK.finditer(run):
        if match.start() > at:
            yield run[at : match.start()][:MAX_WORD_CHARS].casefold()
        if len(match[0]) == 1:
            yield match[0]
        for one, two in pairwise(match[0]):
            yield one + two
        at = match.end()
    if at < len(run):
        yield run[at:][:MAX_WORD_CHARS].casefold()


_PEOPLE_SAY: Final = """
    a able about again ago all already also always am an and another any anybody anyone anything are as at
    be because been both but by can could did do does doing don each every few for from get give had has have
    he hello help her here hers hey hi him his how i if in into is it its just kindly know less let like ll
    look looking lot make many may maybe me mine more most much my myself need never none nor now of often on
    one ones only or other our ours out over own perhaps please quite rather re really right s said same say
    see seem shall she should since so some somebody someone something still such sure t tell than thank
    thanks that the their them then there these they thing things this those though through till to together
    too try until up upon us using usually ve very via want was way we well were what when where whether which
    while who whom whose why will with within without would yes yet you your
"""
_FILLERS: Final = frozenset(map(stem, _PEOPLE_SAY.split()))
"""Words of people that say nothing of a tool."""
