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
