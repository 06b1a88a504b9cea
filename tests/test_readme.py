"""The README's table of what passes through is what `tests/real/test_flows.py` shows, no more and no less."""

import re
import sys
from pathlib import Path

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "real"))

from flow_list import FLOWS, PAIRS  # noqa: E402

ROW = re.compile(r"^\| (?P<feature>[^|]+) \| (?P<cells>(?:[✓–] \| ){4})(?P<flows>(?:`\w+` ?)+)\|$", re.M)


def rows():
    """The pairs ticked for each flow of the table."""
    text = (TESTS.parent / "README.md").read_text(encoding="utf-8")
    for row in ROW.finditer(text):
        ticked = tuple(pair for pair, cell in zip(PAIRS, row["cells"].split(" | "), strict=False) if cell == "✓")
        for flow in re.findall(r"`(\w+)`", row["flows"]):
            yield flow, ticked


def test_every_tick_is_a_test_and_every_test_a_tick():
    assert dict(rows()) == {name: flow.pairs for name, flow in FLOWS.items() if not flow.npm}
