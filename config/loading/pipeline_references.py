"""References in the arguments of a pipeline's steps: `${input.a.b}`, `${step.text}`, `${step.data.a.0}`. `$${` stands
for a plain `${`. Pure.

A text is split as it was written in the configuration. What is put in place of a reference is never split, so no value
of a host or a server is ever read as a reference.
"""

import re
from typing import Final, NamedTuple

INPUT: Final = "input"
TEXT: Final = "text"
DATA: Final = "data"
_MARK = re.compile(r"\$\$\{|\$\{(?P<inner>[^{}]*)\}|\$\{")
_ROOT = re.compile(r"[a-z][a-z0-9_]*")


class BadReference(ValueError):
    """What looks like a reference and is none; the text says why, and what to write."""


class StepReference(NamedTuple):
    """One reference: to the arguments of the pipeline, or to the result of a step."""

    root: str
    """`input`, or the id of a step."""
    path: tuple[str, ...]
    """The members and numbers that lead to the value; of a step `text` or `data` first."""

    def __str__(self) -> str:
        return f"${{{'.'.join((self.root, *self.path))}}}"


def split_text(text: str) -> list[str | StepReference]:
    """The plain texts and the references of a text, in order. Raises BadReference."""
    parts: list[str | StepReference] = []
    plain, at = "", 0
    for found in _MARK.finditer(text):
        plain += text[at : found.start()]
        at = found.end()
        if found[0] == "$${":
            plain += "${"
            continue
        if plain:
            parts.append(plain)
        parts.append(_read(found["inner"]))
        plain = ""
    plain += text[at:]
    return [*parts, plain] if plain or not parts else parts


def _read(inner: str | None) -> StepReference:
    if inner is None:
        raise BadReference("`${` has no `}`; write `$${` for a plain `${`")
    root, *path = inner.split(".")
    if not _ROOT.fullmatch(root) or not all(path):
        text = f"`${{{inner[:60]}}}` means nothing here: write ${{input.NAME}}, ${{STEP.text}} or ${{STEP.data.NAME}}"
        raise BadReference(f"{text}, or `$${{` for a plain `${{`")
    if (root != INPUT and path[:1] not in ([TEXT], [DATA])) or (path[:1] == [TEXT] and root != INPUT and path[1:]):
        raise BadReference(
            f"`${{{inner[:60]}}}`: of a step there are ${{{root[:30]}.text}} and ${{{root[:30]}.data.NAME}}"
        )
    return StepReference(root, tuple(path))
