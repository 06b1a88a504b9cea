"""Worlds go over both ways of a request."""

import pytest

from tests.support.ways import CHOICES, take_way


@pytest.fixture(autouse=True, params=CHOICES)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take_way(request, monkeypatch)
