"""Changes of a text, and their refusal: the common language of `serverfile`, `jsonc`, `toml` and `yaml`. Pure."""

from msgspec import Struct

from config.diagnostics import Problem


class EditRefused(Exception):
    """A text that cannot be read, or not be edited for certain. The text says what is in the way."""


def refusal(problem: Problem) -> EditRefused:
    """The reason why a text is not even parsed."""
    where = "" if problem.line is None else f" (line {problem.line})"
    return EditRefused(f"{problem}{where}")


class Edit(Struct, frozen=True):
    """`old`, which stands at `start`, becomes `new`; nothing else changes."""

    start: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """`text` with the change made."""
        end = self.start + len(self.old)
        assert text[self.start : end] == self.old
        return text[: self.start] + self.new + text[end:]


def newline(text: str) -> str:
    """The line break of `text`."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def line_start(text: str, at: int) -> int:
    """The position at which the line of `at` starts."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The position at which the line of `at` ends: its line break, or the end of the text."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end
