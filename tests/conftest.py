"""Setup of all tests: the claims of requirements, and whether real peers are installed.

`support/seeds.py` seeds chance; `support/everything.py` draws what takes turns; `support/limits.py` ends tests that
hang; `support/scheduling.py` distributes them; `support/durations.py` adds up their seconds.
"""

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import durations, everything, limits, scheduling, seeds
from tests.support.oauth import fixture as oauth_fixture

TESTS = Path(__file__).parent

same = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("more", same)
settings.register_profile("same", same, max_examples=50)
settings.load_profile(os.environ.get("HUBD_HYPOTHESIS", "same"))
"""The same examples in every run, however slow the machine, and twice as many with `more`, which `make everything` has;
HUBD_HYPOTHESIS=default looks further."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell ignores SIGINT for tests in the background, and all programs that they start would inherit that."""

STOPPING = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
"""The handlers of signals that end this process."""

for name in ("COLUMNS", "LINES", "NO_COLOR"):
    os.environ.pop(name, None)  # workers have that of their parent's terminal, and what is shown would depend on it

CLAIMS = pytest.StashKey[dict[str, set[str]]]()

DEPS_MADE = TESTS.parent / ".deps" / ".complete"
"""The last file that tests/deps/setup.sh makes."""


def pytest_configure(config: pytest.Config) -> None:
    for plugin in (seeds, everything, limits, scheduling, durations, oauth_fixture):
        config.pluginmanager.register(plugin, plugin.__name__)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note who claims requirements, before `-m` leaves tests out; skip tests of real peers where these are not
    installed, which `tests/check.sh all` forbids."""
    found = config.stash.setdefault(CLAIMS, {})
    for item in items:
        for marker in item.iter_markers("covers"):
            for id in marker.args:
                found.setdefault(id, set()).add(item.nodeid)
    if DEPS_MADE.exists() or os.environ.get("HUBD_REQUIRE_REAL"):
        return
    absent = pytest.mark.skip(reason="real servers and clients are not installed: make deps")
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(absent)


def pytest_collection() -> None:
    """Nothing of what tests are collected from is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the many thousand collected tests out of all collections of garbage to come, which would go through them."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fail the test that leaves other handlers of signals: processes of later ones would inherit what it ignores, and
    each would be waited for until it is killed."""
    result = yield
    left = {number: signal.getsignal(number) for number in STOPPING if signal.getsignal(number) != STOPPING[number]}
    for number in left:
        signal.signal(number, STOPPING[number])
    assert not left
    return result


@pytest.fixture(scope="session")
def claims(request: pytest.FixtureRequest) -> dict[str, set[str]]:
    """Requirement id -> the collected tests that claim it by `@pytest.mark.covers`."""
    return request.config.stash[CLAIMS]


@pytest.fixture(scope="session")
def direct_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Place for verdicts of the conformance suite on servers without a hub, one for all workers of a run."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "direct"
