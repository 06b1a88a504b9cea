"""Which tests one worker of xdist gets together: those of a module, which share its fixtures and are many and short.

Tests of `APART` are few and long, so each goes where there is room; what shares something there is marked as a group.
"""

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

APART: Final = ("tests/conformance/", "tests/load/", "tests/real/")


class ModuleScheduling(LoadGroupScheduling):
    """`--dist loadgroup`, where the tests of a module are a group."""

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        return group if group != nodeid or nodeid.startswith(APART) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModuleScheduling | None:
    """With `--dist loadgroup`: tests of a module together."""
    return ModuleScheduling(config, log) if config.getoption("dist") == "loadgroup" else None
