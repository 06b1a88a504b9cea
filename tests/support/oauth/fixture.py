"""Fixture: `oauth`, the rig of a test. The root conftest registers it for all tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def oauth(tmp_path: Path) -> Iterator[Any]:
    """An `OAuthRig`; whatever the test starts with it ends with the test."""
    from tests.support.oauth.rig import OAuthRig  # imported when used: most tests use none of it

    directory = tmp_path / "oauth"
    directory.mkdir()
    with OAuthRig(directory) as rig:
        yield rig


@pytest.fixture
def browser() -> Any:
    """`browser.browser_signed_in`: a real browser signs in. The test is skipped where Debian's chromium is not."""
    from tests.support.oauth import browser as chromium

    if chromium.chromium() is None:
        pytest.skip("there is no chromium here: install Debian's, or let `make deps` unpack it")
    return chromium.browser_signed_in
