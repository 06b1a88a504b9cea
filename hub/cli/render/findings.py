"""Findings of `hubd doctor`, as lines for a screen: the worst last, nearest to the prompt, and a summary line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hub.cli.checks.evidence import Finding
from hub.cli.render.screen import styled

if TYPE_CHECKING:
    from hub.cli.render.screen import Block

LEVELS: Final[dict[str, str]] = {"note": "dim", "warning": "warning", "problem": "bad"}
"""The style of each level, the mildest first."""
NOTHING: Final = "nothing is wrong"


def findings_blocks(found: Sequence[Finding]) -> "list[Block]":
    """The findings, then how many there are of each level, and how many `hubd doctor --fix` would mend."""
    blocks: list[Block] = []
    for finding in sorted(found, key=lambda each: list(LEVELS).index(each.level)):
        level = styled(f"{finding.level}: ", LEVELS[finding.level])
        blocks.append(level + styled(finding.what, "bold") + styled(f"; {finding.why}", "dim"))
        blocks.append(f"    fix: {finding.fix}")
    counted = {level: sum(each.level == level for each in found) for level in reversed(LEVELS)}
    counts = [f"{count} {level}{'s' * (count != 1)}" for level, count in counted.items() if count]
    if counts:
        worst = next(level for level, count in counted.items() if count)
        mended = sum(each.repair is not None for each in found)
        hint = f"; `hubd doctor --fix` mends {mended}" if mended else ""
        return [*blocks, "", styled(", ".join(counts), LEVELS[worst]) + hint]
    return [styled(NOTHING, "good")]
