"""The servers that use a secret of `hubd secret`: those whose settings name it, disabled ones among them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from config.loading.all_files import gather
from config.loading.precedence import stacks

_USE: Final = re.compile(r"(?<!\$)\$\{secret:([A-Za-z0-9_.-]{1,64})\}")


def secret_uses(named: Path | None, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of servers by the secret that they use, as the files of the configuration say it. Blocks."""
    found: dict[str, list[str]] = {}
    for name, stack in stacks(gather(named, environ).sources).items():
        values = [entry.table.values for entry in (*stack.saying, *stack.shadowed)]
        for secret in sorted({secret for text in _texts(values) for secret in _USE.findall(text)}):
            found.setdefault(secret, []).append(name)
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
