"""Long tables: one test goes through all rows, and its failure tells of each row that fails.

For tables of 50 rows and more, whose tests share nothing but what never changes; shorter ones are `parametrize`.
"""

import inspect
import textwrap
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]
SHOWN = 300


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """A decorator in place of `pytest.mark.parametrize` with these names, split by commas, and rows."""
    parameters = [name.strip() for name in names.split(",")]
    table = [tuple(row) if len(parameters) > 1 else (row,) for row in rows]
    assert table

    def decorate(test: Test) -> Test:
        file = inspect.getfile(test)

        def whole(**fixtures: Any) -> None:
            failures = []
            for row in table:
                try:
                    test(**dict(zip(parameters, row, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told of below
                    frames = traceback.extract_tb(error.__traceback__)
                    own = [f" in line {each.lineno}: {each.line}" for each in frames if each.filename == file]
                    failures.append(f"{repr(row)[:SHOWN]}{''.join(own[-1:])}\n{textwrap.indent(str(error), '    ')}")
            if failures:
                pytest.fail(f"{len(failures)} of {len(table)} rows fail:\n" + "\n".join(failures), pytrace=False)

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in parameters]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        whole.__dict__.update({**test.__dict__, **whole.__dict__})
        whole.__name__, whole.__qualname__ = test.__name__, test.__qualname__
        whole.__module__, whole.__doc__ = test.__module__, test.__doc__
        return whole

    return decorate
