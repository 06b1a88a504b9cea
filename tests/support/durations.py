"""Seconds of tests per module, beside those of the committed table `data/durations.toml`.

HUBD_DURATIONS=compare names what takes 15 % more than there, as `make everything` does; HUBD_DURATIONS=record writes
the modules of this run into the table, which is for a whole run on a machine with nothing else to do.
"""

import os
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

TABLE: Final = Path(__file__).parents[1] / "data" / "durations.toml"
MODE: Final = os.environ.get("HUBD_DURATIONS", "") if "PYTEST_XDIST_WORKER" not in os.environ else ""
MORE: Final = 1.15
NOISE_S: Final = 2.0
"""What a module may take longer besides: a short one varies by more than 15 %."""
HEAD: Final = """# Seconds of tests per module (HUBD_DURATIONS=record make everything), all workers together.
# [test]: the tests of `make test`, [alone]: those of them that run last; [everything]: those of `make everything` only.
"""

Seconds = dict[str, dict[str, float]]

MARKED: Final = ("everything", "alone")
spent: Final[dict[str, Counter[str]]] = {kind: Counter() for kind in ("test", *MARKED)}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count setup, call and teardown."""
    kind = next((kind for kind in MARKED if kind in report.keywords), "test")
    spent[kind][report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Compare or record."""
    if not MODE:
        return
    table: Seconds = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    if MODE == "record":
        TABLE.write_text(written(merge(table, spent)), encoding="utf-8")
    else:
        for line in slower(table, spent):
            terminalreporter.write_line(f"warning: {line}", yellow=True)


def merge(table: Seconds, found: Seconds) -> Seconds:
    """The table with what was found in place of what it had."""
    return {kind: {**table.get(kind, {}), **found.get(kind, {})} for kind in spent}


def written(table: Seconds) -> str:
    """The text of a table; what takes less than a tenth of a second is left out, and so is a module that is gone."""
    lines = [HEAD]
    for kind, modules in table.items():
        lines += [f"[{kind}]"]
        lines += [f'"{name}" = {s:.1f}' for name, s in sorted(modules.items()) if s >= 0.05 and is_there(name)]
        lines += [""]
    return "\n".join(lines)


def is_there(name: str) -> bool:
    return (TABLE.parents[2] / name).exists()


def slower(table: Seconds, found: Seconds) -> list[str]:
    """Sentences on what took longer than in the table: whole kinds, then modules."""
    lines = []
    for kind, modules in found.items():
        known = table.get(kind, {})
        both = [name for name in modules if name in known]
        before, now = sum(known[name] for name in both), sum(modules[name] for name in both)
        if now > before * MORE + NOISE_S:
            lines.append(f"the tests of [{kind}] took {now:.0f} s, not {before:.0f}")
        late = [name for name in both if modules[name] > known[name] * MORE + NOISE_S]
        lines += [
            f"{name} took {modules[name]:.1f} s, not {known[name]:.1f}"
            for name in sorted(late, key=lambda name: known[name] - modules[name])
        ]
    return lines
