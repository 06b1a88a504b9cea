"""The era pairs: every journey in all four, over both carriers of hosts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes import FakeUpstream
from house import House, JudgedHost, a_house

from hub.wire.mcp import L4, MODERN, Era, era_of

PAIRS = {"LL": (L4, L4), "LM": (L4, MODERN), "ML": (MODERN, L4), "MM": (MODERN, MODERN)}
"""Host and upstream."""


class Pair:
    """What a journey goes between: a kind of host and a kind of upstream."""

    def __init__(self, name: str, carrier: str) -> None:
        self.name = name
        self.carrier = carrier
        self.host_version, self.upstream_version = PAIRS[name]
        self.from_legacy = era_of(self.host_version) is Era.LEGACY
        self.to_legacy = era_of(self.upstream_version) is Era.LEGACY

    @property
    def other_version(self) -> str:
        """Of the era that the upstream is not."""
        return MODERN if self.to_legacy else L4

    def fake(self, **options: Any) -> FakeUpstream:
        """An upstream of the pair."""
        return FakeUpstream(version=self.upstream_version, **options)

    def whole(self, **result: Any) -> dict[str, Any]:
        """A result as an upstream of the pair gives it."""
        return result if self.to_legacy else {"resultType": "complete", **result}

    async def host(self, house: House, **options: Any) -> JudgedHost:
        """One more host of the pair."""
        return await house.host(self.carrier, self.host_version, **options)

    @asynccontextmanager
    async def house(self, fakes: dict[str, FakeUpstream], **options: Any) -> AsyncIterator[tuple[House, JudgedHost]]:
        """A house with `fakes` beneath and one host of the pair in it."""
        async with a_house(fakes, **options) as house:
            yield house, await self.host(house)


@pytest.fixture(params=[f"{name}-{carrier}" for name in PAIRS for carrier in ("lines", "http")])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param.split("-"))
