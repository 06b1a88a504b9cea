"""What all tests of upstreams over HTTP have in common."""

import pytest


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real clock, how long a standing stream may take is no part of what is tested."""
    if "autojump_clock" not in request.fixturenames:
        monkeypatch.setattr("upstreams.transports.http.standing_stream.GREETING_S", 60.0)
