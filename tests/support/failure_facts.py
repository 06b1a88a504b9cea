"""What hosts are told of failures of the hub's own."""

import re
from typing import Any


def but_ref(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts of a failed operation without its number, which has its form."""
    assert re.fullmatch("[0-9a-f]{8}", facts["ref"])
    return {name: fact for name, fact in facts.items() if name != "ref"}
