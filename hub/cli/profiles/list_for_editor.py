"""The list of tools that `hubd tools --pick` opens in an editor, and what somebody made of it. Pure.

One line a tool: its name, about how many tokens it takes, and what it does. A line that begins with `#` is left out,
and so is one that is gone. Servers that are not connected have a line each, too. Other lines that begin with `#` are
for the reader.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from config.profile_settings import DEFAULT_PROFILE
from config.registry.server_json import one_line
from hub.cli.client.retry_while_servers_start import STATES
from hub.cli.context import nearest
from hub.cli.profiles.tool_globs import Away, can_be_named
from hub.cli.render.words import about
from hub.control.answers import ToolUse, tokens_together
from hub.wire.printable import printable

MAX_MISTAKES: Final = 5
MAX_SHOWN: Final = 80
"""Characters of a name that cannot be chosen."""
LINE_CHARS: Final = 110
"""Width at which descriptions are cut."""
LEAST_CHARS: Final = 30
"""A description gets at least so many, even if the line grows longer."""
_NOT_HERE: Final = "not here now; the profile names it"
_ORDER: Final = re.compile(r"\b(vim?[<=>]?\d*|ex|local variables):", re.IGNORECASE)
"""Texts in which editors would find their settings: descriptions come from servers."""
_ODD: Final = "cannot be chosen by its name, and is shown where all others of its server are; give the server a prefix"
_HELP: Final = """\
# {heading}
# `#` before a tool leaves it out. Save and close to write the profile; close this as it is to change nothing.
"""


class Picked(Struct, frozen=True):
    """The list as somebody has left it."""

    names: tuple[str, ...] = ()
    """The tools that are shown, in the order of the list."""
    away: tuple[str, ...] = ()
    """The words of what is not connected, and shown nevertheless."""
    all_left_out: bool = False
    """No line is chosen, and some are commented out: an empty choice is meant, not a mistake."""
    mistakes: tuple[str, ...] = ()
    """Lines that name no tool, as sentences."""


class ListToPick(Struct, frozen=True):
    """All that a list offers to choose."""

    name: str
    """Of the profile."""
    hosts: Sequence[str]
    tools: Sequence[ToolUse]
    away: Sequence[Away]
    chosen: set[str]
    """At first: the names of tools, and words of what is `away`."""

    def heading(self, chosen: Collection[str]) -> str:
        """The sentence above the list: whose it is, and how many of the tools are chosen."""
        whose = ", ".join(self.hosts) or (
            "all hosts without another one" if self.name == DEFAULT_PROFILE else "of no host yet"
        )
        taken = extent([each for each in self.tools if each.name in chosen], self.tools)
        return f"The tools of the profile {self.name} ({whose}): {taken}."

    def text(self, texts: Mapping[str, str]) -> str:
        """The list for an editor. `texts`: descriptions of tools."""
        lines = [_HELP.format(heading=self.heading(self.chosen))]
        width = max((len(each.name) for each in self.tools if can_be_named(each.name)), default=0) + 1
        costs = {each.name: about(each.tokens) for each in self.tools}
        right = max(map(len, costs.values()), default=0)
        for server, group in groupby(self.tools, lambda each: each.server):
            found = list(group)
            lines.append(f"# {server}: {_tools(found)}")
            for each in found:
                if not can_be_named(each.name):
                    lines.append(f"# {printable(each.name)[:MAX_SHOWN]!r} {_ODD}")
                    continue
                mark = "" if each.name in self.chosen else "#"
                line = f"{mark + each.name:{width}}  {costs[each.name]:>{right}}"
                what = describe(texts.get(each.name, ""), max(LEAST_CHARS, LINE_CHARS - len(line) - 2))
                lines.append(f"{line}  {what}".rstrip())
            lines.append("")
        if self.away:
            lines.append("# not connected now: a line shows all tools that its server will have, `#` leaves them out")
            lines += [f"{'' if each.word in self.chosen else '#'}{each.word}  {state_of(each)}" for each in self.away]
            lines.append("")
        return "\n".join(lines)

    def read(self, text: str) -> Picked:
        """Read the list that somebody has saved."""
        known = {each.name for each in self.tools if can_be_named(each.name)} | {each.word for each in self.away}
        found: set[str] = set()
        commented: set[str] = set()
        mistakes: list[str] = []
        for number, line in enumerate(text.splitlines(), start=1):
            is_comment = line.lstrip().startswith("#")
            word = next(iter(line.lstrip().removeprefix("#").split()), "")
            if word in known:
                (commented if is_comment else found).add(word)
            elif word and not is_comment:
                meant = nearest(word[:256], known) or "each line begins with the name of a tool"
                mistakes.append(f"line {number}: there is no tool {printable(word[:80])}; {meant}")
        if len(mistakes) > MAX_MISTAKES:
            mistakes = [*mistakes[:MAX_MISTAKES], f"{len(mistakes) - MAX_MISTAKES} more lines name no tool"]
        names = tuple(each.name for each in self.tools if each.name in found)
        away = tuple(each.word for each in self.away if each.word in found)
        return Picked(names, away, bool(commented) and not found, tuple(mistakes))


def describe(text: str, most: int) -> str:
    """A description as it fits a line, safe for terminals and editors."""
    line = one_line(printable(text[: 4 * LINE_CHARS], keep="\n\t"), most)
    return _ORDER.sub(r"\1 :", line)


def state_of(away: Away) -> str:
    """The reason why something of a list has no tools now."""
    return f"{away.server} is {STATES.get(away.state, away.state)}" if away.server else _NOT_HERE


def extent(taken: Sequence[ToolUse], tools: Sequence[ToolUse]) -> str:
    """The share of all that is shown."""
    return f"all of {_tools(tools)}" if len(taken) == len(tools) else f"{_tools(taken)}, of {_tools(tools)}"


def _tools(found: Sequence[ToolUse]) -> str:
    return f"{len(found)} {'tool' if len(found) == 1 else 'tools'}, {about(tokens_together(found))} tokens"
