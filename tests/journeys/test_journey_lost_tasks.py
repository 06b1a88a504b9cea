"""Tasks of an ended process: their ids mean nothing to the next one, even if it uses the same ids."""

import pytest
import trio

from hub.wire.mcp import L4, MODERN
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, begin, look, soon, text
from tests.support.house import ALICE, BOB, a_house


@pytest.mark.covers("F-P-30", "I-2")
async def test_the_next_process_s_task_is_never_taken_for_the_lost_one(autojump_clock):
    fake = TaskServer(L4, soon)
    async with a_house({"files": fake}) as house:
        alice = await house.host("lines", MODERN, capabilities=EXTENSION, identity=ALICE)
        lost = await begin(alice)
        assert list(fake.tasks) == ["u-1"]
        await fake.conversation.close()
        fake.tasks.clear()
        await trio.sleep(5)
        again = await house.host("lines", MODERN, capabilities=EXTENSION, identity=BOB)
        of_bob = await begin(again)
        assert list(fake.tasks) == ["u-1"], "the server counts from the beginning"
        anew = await begin(alice)
        await trio.sleep(20)
        for _ in range(2):
            task = await look(alice, lost)
            assert (task["status"], task["error"]["data"]["hub"]) == ("failed", "upstream_lost")
        assert (await alice.error("tasks/get", {"taskId": of_bob}))["code"] == -32602
        for host, id in ((again, of_bob), (alice, anew)):
            assert (await look(host, id))["result"]["content"] == text("at last")["content"]


@pytest.mark.covers("F-P-30")
async def test_a_modern_server_that_forgot_its_tasks_says_so_itself(autojump_clock):
    fake = TaskServer(MODERN, soon)
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", MODERN, capabilities=EXTENSION)
        kept, forgotten = await begin(host), await begin(host)
        await fake.conversation.close()
        fake.tasks.pop("u-2")
        fake.task.complete(text("at last"))
        await trio.sleep(20)
        assert (await look(host, kept))["result"]["content"] == text("at last")["content"]
        assert (await host.error("tasks/get", {"taskId": forgotten}))["code"] == -32602
