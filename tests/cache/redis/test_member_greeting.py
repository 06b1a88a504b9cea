"""A store that is there, and stops answering at the worst moment."""

import pytest
import trio

from cache.redis.sealed_values import ValueSealer
from cache.redis.store_link import GREETING_S, Member
from cache.redis.url import StoreAddress


class Hanging:
    """A link of which the first answers never come, from the one that `answers` on."""

    primary = "run"

    def __init__(self, answers):
        self.answers = answers
        self.reason = ""

    async def _answer(self):
        await trio.lowlevel.checkpoint()
        if self.answers == 0:
            await trio.sleep_forever()
        self.answers -= 1

    async def subscribe(self, channel):
        await self._answer()

    async def ask(self, *command):
        await self._answer()

    def fail(self, reason):
        self.reason = reason


@pytest.mark.covers("F-X-02")
@pytest.mark.parametrize("answers", [0, 1])
async def test_one_that_hangs_once_it_is_connected_is_left(autojump_clock, answers):
    link = Hanging(answers)
    began = trio.current_time()
    await Member(StoreAddress(host="h"), ValueSealer(b"k" * 32), trio.current_time)._serve(link)
    assert link.reason == "no answer within 3 s"
    assert trio.current_time() - began == GREETING_S
