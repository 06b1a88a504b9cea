"""The era pairs: every journey in all four, over both carriers of hosts."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from hub.wire.mcp import L4, MODERN, Era, era_of
from tests.support.fakes import Conversation, FakeUpstream
from tests.support.house import House, JudgedHost, a_house

PAIRS = {"LL": (L4, L4), "LM": (L4, MODERN), "ML": (MODERN, L4), "MM": (MODERN, MODERN)}
"""Versions of host and upstream."""


class Pair:
    """The ends of a journey: a kind of host and a kind of upstream."""

    def __init__(self, name: str, carrier: str) -> None:
        self.name = name
        self.carrier = carrier
        self.host_version, self.upstream_version = PAIRS[name]
        self.from_legacy = era_of(self.host_version) is Era.LEGACY
        self.to_legacy = era_of(self.upstream_version) is Era.LEGACY

    @property
    def other_version(self) -> str:
        """A version of the era that the upstream is not."""
        return MODERN if self.to_legacy else L4

    def fake(self, **options: Any) -> FakeUpstream:
        """An upstream of the pair."""
        return FakeUpstream(version=self.upstream_version, **options)

    def whole(self, **result: Any) -> dict[str, Any]:
        """A result in the form of the upstream's era."""
        return result if self.to_legacy else {"resultType": "complete", **result}

    def asks(
        self, questions: dict[str, tuple[str, dict[str, Any]]], then: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Callable[..., Any]:
        """A handler of the upstream that asks all `questions` (key to method and params) at once, as its era does, and
        returns what `then` makes of the answers; an answer that was an error is None."""

        async def legacy(message: dict[str, Any], conversation: Conversation) -> dict[str, Any]:
            answers: dict[str, Any] = {}

            async def ask(key: str) -> None:
                answers[key] = (await conversation.ask(*questions[key])).get("result")

            async with trio.open_nursery() as nursery:
                for key in questions:
                    nursery.start_soon(ask, key)
            return self.whole(**then(answers))

        def modern(message: dict[str, Any], conversation: Conversation) -> dict[str, Any]:
            params = message["params"]
            if "inputResponses" not in params:
                asked = {key: {"method": method, "params": more} for key, (method, more) in questions.items()}
                return {"resultType": "input_required", "inputRequests": asked, "requestState": "opaque"}
            assert params["requestState"] == "opaque"
            return self.whole(**then({key: params["inputResponses"].get(key) for key in questions}))

        return legacy if self.to_legacy else modern

    async def host(self, house: House, **options: Any) -> JudgedHost:
        """Attach one more host of the pair."""
        return await house.host(self.carrier, self.host_version, **options)

    @asynccontextmanager
    async def house(self, fakes: dict[str, FakeUpstream], **options: Any) -> AsyncIterator[tuple[House, JudgedHost]]:
        """A house with `fakes` beneath and one host of the pair in it."""
        async with a_house(fakes, **options) as house:
            yield house, await self.host(house)
