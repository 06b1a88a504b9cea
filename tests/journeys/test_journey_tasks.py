"""Tasks in all pairs of eras: absorbed, converted and relayed."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile
from config.security_settings import PolicyConfig
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4, MODERN, Era, Kind
from tests.journeys.pairs import Pair
from tests.support.fakes import Conversation, FakeUpstream
from tests.support.house import ALICE, BOB, a_house

EXTENSION = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
RELATED = "io.modelcontextprotocol/related-task"
TIMES = {"createdAt": "2026-11-01T10:00:00Z", "lastUpdatedAt": "2026-11-01T10:02:00Z"}
TERMINAL = ("completed", "failed", "cancelled")
FORM = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
YES = {"action": "accept", "content": {"name": "Ann"}}
ELICITS = {"elicitation": {}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


class FakeTask:
    """One task of a `TaskServer`."""

    def __init__(self, server: "TaskServer", id: str, home: Conversation) -> None:
        self.server = server
        self.home = home
        self.id = id
        self.status = "working"
        self.token: object = None
        self.message: str | None = None
        self.result: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.questions: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Any] = {}
        self.changed = trio.Event()
        self.scope = trio.CancelScope()

    def change(self, **members: Any) -> None:
        for name, value in members.items():
            setattr(self, name, value)
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def ask(self, key: str, method: str, params: dict[str, Any]) -> Any:
        """Want to know something, in the way of the server's era; the answer, None for an error."""
        self.questions[key] = {"method": method, "params": params}
        self.change(status="input_required")
        while key not in self.answers:
            await self.changed.wait()
        if self.status == "input_required" and self.questions.keys() <= self.answers.keys():
            self.change(status="working")
        return self.answers[key]

    def complete(self, result: dict[str, Any]) -> None:
        legacy_error = result.get("isError") and self.server.era is Era.LEGACY
        self.change(result=result, status="failed" if legacy_error else "completed")

    def fail(self, code: int, message: str) -> None:
        self.change(error={"code": code, "message": message}, status="failed")

    def describe(self, *, detailed: bool = False) -> dict[str, Any]:
        said = {} if self.message is None else {"statusMessage": self.message}
        about = {"taskId": self.id, "status": self.status, **said, **TIMES}
        if self.server.era is Era.LEGACY:
            return {**about, "ttl": 60_000, "pollInterval": self.server.poll_ms}
        about |= {"ttlMs": 60_000, "pollIntervalMs": self.server.poll_ms}
        if detailed and self.status == "input_required":
            about["inputRequests"] = {key: each for key, each in self.questions.items() if key not in self.answers}
        if detailed and self.status == "completed":
            about["result"] = {"resultType": "complete", **(self.result or {})}
        if detailed and self.status == "failed":
            about["error"] = self.error
        return about


class TaskServer(FakeUpstream):
    """A server whose tool `slow` is a task. `work` is what it does."""

    def __init__(self, version: str, work: Callable[[FakeTask], Awaitable[None]], *, requires: bool = True) -> None:
        super().__init__(version=version, tools=["slow", "echo"])
        self.poll_ms = 2_000
        self.work = work
        self.tasks: dict[str, FakeTask] = {}
        self.nurseries: list[trio.Nursery] = []
        self.never_blocks = False
        if self.era is Era.LEGACY:
            self.capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
            self.lists["tools"][0]["execution"] = {"taskSupport": "required" if requires else "optional"}
        else:
            self.capabilities["extensions"] = {"io.modelcontextprotocol/tasks": {}}
        self.on |= {
            "tools/call:slow": self._call,
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }

    @property
    def task(self) -> FakeTask:
        """The newest."""
        return list(self.tasks.values())[-1]

    async def _call(self, message: dict[str, Any], conversation: Conversation) -> Any:
        params = message["params"]
        if self.era is Era.LEGACY and "task" not in params:
            return text("plain") if self.lists["tools"][0]["execution"]["taskSupport"] == "optional" else None
        if self.era is Era.MODERN:
            declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions", {})
            if "io.modelcontextprotocol/tasks" not in declared:
                needed = raw({"requiredCapabilities": EXTENSION})
                return Failure(-32021, "Missing required client capability", needed)
        task = FakeTask(self, f"u-{len(self.tasks) + 1}", conversation)
        self.tasks[task.id] = task
        task.token = params.get("_meta", {}).get("progressToken")
        begun = task.describe()
        self.nurseries[-1].start_soon(self._run, task)
        return {"task": begun} if self.era is Era.LEGACY else {"resultType": "task", **begun}

    async def _run(self, task: FakeTask) -> None:
        with task.scope:
            await self.work(task)

    def _find(self, message: dict[str, Any], conversation: Conversation) -> FakeTask | Failure:
        """The task a request is about; a legacy one is known only where it began."""
        task = self.tasks.get(message["params"]["taskId"])
        if task is None or (self.era is Era.LEGACY and task.home is not conversation):
            return Failure(-32602, "Task not found")
        return task

    def _complete(self, **members: Any) -> dict[str, Any]:
        return members if self.era is Era.LEGACY else {"resultType": "complete", **members}

    def _get(self, message: dict[str, Any], conversation: Conversation) -> Any:
        task = self._find(message, conversation)
        return task if isinstance(task, Failure) else self._complete(**task.describe(detailed=True))

    async def _result(self, message: dict[str, Any], conversation: Conversation) -> Any:
        task = self._find(message, conversation)
        if isinstance(task, Failure):
            return task
        if self.never_blocks and task.status not in TERMINAL:
            return Failure(-32602, "The task is still working")
        async with trio.open_nursery() as nursery:
            asked: set[str] = set()
            while task.status not in TERMINAL:
                for key in task.questions.keys() - asked:
                    asked.add(key)
                    nursery.start_soon(self._ask, task, key, conversation)
                await task.changed.wait()
            nursery.cancel_scope.cancel()
        if task.error is not None:
            return Failure(task.error["code"], task.error["message"])
        if task.status == "cancelled":
            return Failure(-32603, "The task was cancelled")
        return {**(task.result or {}), "_meta": {RELATED: {"taskId": task.id}}}

    async def _ask(self, task: FakeTask, key: str, conversation: Conversation) -> None:
        question = task.questions[key]
        params = {**question["params"], "_meta": {RELATED: {"taskId": task.id}}}
        answer = await conversation.ask(question["method"], params)
        task.answers[key] = answer.get("result")
        task.change()

    def _update(self, message: dict[str, Any], conversation: Conversation) -> Any:
        task = self._find(message, conversation)
        if isinstance(task, Failure):
            return task
        known = message["params"]["inputResponses"].items()
        task.answers = {**{key: answer for key, answer in known if key in task.questions}, **task.answers}
        task.change()
        return self._complete()

    def _cancel(self, message: dict[str, Any], conversation: Conversation) -> Any:
        task = self._find(message, conversation)
        if isinstance(task, Failure):
            return task
        if task.status in TERMINAL:
            return Failure(-32602, "Already terminal") if self.era is Era.LEGACY else self._complete()
        task.scope.cancel()
        task.change(status="cancelled")
        return self._complete(**(task.describe() if self.era is Era.LEGACY else {}))

    async def serve(self, stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            self.nurseries.append(nursery)
            try:
                await super().serve(stream)
            finally:
                self.nurseries.remove(nursery)
            nursery.cancel_scope.cancel()


async def soon(task: FakeTask) -> None:
    """Take a while, and say so."""
    task.change(message="half of it")
    await trio.sleep(9)
    task.complete(text("at last"))


async def asking(task: FakeTask) -> None:
    await trio.sleep(3)
    answer = await task.ask("name", "elicitation/create", FORM)
    await trio.sleep(3)
    task.complete(text(json.dumps(answer)))


def tasks_of(fake: FakeUpstream, method: str) -> list[dict[str, Any]]:
    return [message for each in fake.conversations for message in each.of(method)]


# --- absorb -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("X-2", "X-3", "X-9", "X-10", "X-12", "X-14", "P-4")
async def test_a_host_without_tasks_just_waits(pair: Pair, autojump_clock: object) -> None:
    fake = TaskServer(pair.upstream_version, soon)
    async with pair.house({"files": fake}) as (_, host):
        question = await host.start("tools/call", {"name": "files__slow"}, token="t")
        answer = await question.wait()
        assert answer["result"]["content"] == text("at last")["content"]
        assert RELATED not in json.dumps(answer)
        messages = [each["params"].get("message") for each in question.heard if "progress" in each["method"]]
        assert "half of it" in messages
        polls = tasks_of(fake, "tasks/get")
        assert 3 <= len(polls) <= 5
        assert trio.current_time() < 20
        capabilities = host.welcome["capabilities"]
        assert "tasks" not in capabilities
        assert ("io.modelcontextprotocol/tasks" in capabilities.get("extensions", {})) is (not pair.from_legacy)


@pytest.mark.covers("P-4")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_progress_goes_on_when_the_call_has_become_a_task(version: str, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        task.change(message="in words")
        for step in (10, 20):
            await trio.sleep(1)
            await task.home.tell("notifications/progress", {"progressToken": task.token, "progress": step})
        await trio.sleep(5)
        task.complete(text("at last"))

    async with a_house({"files": TaskServer(L4, work)}) as house:
        host = await house.host(version=version)
        question = await host.start("tools/call", {"name": "files__slow"}, token="t")
        assert (await question.wait())["result"]["content"] == text("at last")["content"]
        assert [each["params"]["progress"] for each in question.heard] == [10, 20]


@pytest.mark.covers("X-7")
async def test_a_tool_that_says_so_itself_has_failed_as_ever(pair: Pair, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep(1)
        task.complete(text("quota exceeded", isError=True))

    async with pair.house({"files": TaskServer(pair.upstream_version, work)}) as (_, host):
        result = await host.call("files__slow")
        assert (result["content"][0]["text"], result["isError"]) == ("quota exceeded", True)


async def test_an_error_of_the_call_is_one(pair: Pair, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep(1)
        task.fail(-32602, "no such thing")

    async with pair.house({"files": TaskServer(pair.upstream_version, work)}) as (_, host):
        error = await host.error("tools/call", {"name": "files__slow"})
        assert (error["code"], error["message"]) == (-32602, "no such thing")


async def test_a_tool_that_raised_and_left_no_result(autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep(1)
        task.change(message="out of paper", status="failed")

    async with a_house({"files": TaskServer(L4, work)}) as house:
        host = await house.host()
        result = await host.call("files__slow")
        assert (result["content"][0]["text"], result["isError"]) == ("out of paper", True)


@pytest.mark.covers("P-9")
async def test_who_cancels_the_call_cancels_the_task(pair: Pair, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep_forever()

    fake = TaskServer(pair.upstream_version, work)
    async with pair.house({"files": fake}) as (_, host):
        question = await host.start("tools/call", {"name": "files__slow"})
        await trio.sleep(5)
        await host.cancel(question)
        await trio.sleep(1)
        assert fake.task.status == "cancelled"
        assert len(tasks_of(fake, "tasks/cancel")) == 1
        call = tasks_of(fake, "tools/call")[0]["id"]
        assert call not in [each["params"]["requestId"] for each in tasks_of(fake, "notifications/cancelled")]


async def test_a_task_that_is_forgotten_is_an_error_one_can_act_on(pair: Pair, autojump_clock: object) -> None:
    fake = TaskServer(pair.upstream_version, soon)
    async with pair.house({"files": fake}) as (_, host):
        question = await host.start("tools/call", {"name": "files__slow"})
        await trio.sleep(3)
        fake.tasks.clear()
        fake.on["tasks/result"] = lambda message, conversation: None
        result = (await question.wait())["result"]
        assert result["isError"]
        assert "expired" in result["content"][0]["text"]
        assert tasks_of(fake, "tasks/cancel") == []


async def test_a_task_that_is_cancelled_elsewhere(pair: Pair, autojump_clock: object) -> None:
    fake = TaskServer(pair.upstream_version, soon)
    async with pair.house({"files": fake}) as (_, host):
        question = await host.start("tools/call", {"name": "files__slow"})
        await trio.sleep(3)
        fake.task.scope.cancel()
        fake.task.change(status="cancelled")
        result = (await question.wait())["result"]
        assert result["isError"]
        assert "cancelled" in result["content"][0]["text"]


async def test_the_total_time_holds_for_tasks(pair: Pair, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep_forever()

    fake = TaskServer(pair.upstream_version, work)
    timeouts = {"files": {"timeouts": {"call_total": 30.0}}}
    async with pair.house({"files": fake}, upstreams=config(timeouts)) as (_, host):
        result = await host.call("files__slow")
        assert result["isError"]
        assert 30 <= trio.current_time() < 31
        await trio.sleep(1)
        assert fake.task.status == "cancelled"


def config(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    from config.settings import Timeouts

    return {name: {**more, "timeouts": Timeouts(**more.get("timeouts", {}))} for name, more in settings.items()}


async def test_a_server_that_does_not_block_is_asked_again(autojump_clock: object) -> None:
    fake = TaskServer(L4, soon)
    fake.never_blocks = True
    async with a_house({"files": fake}) as house:
        host = await house.host()
        assert (await host.call("files__slow"))["content"] == text("at last")["content"]


@pytest.mark.covers("X-6", "X-9")
async def test_a_task_that_wants_to_know_something(pair: Pair, autojump_clock: object) -> None:
    fake = TaskServer(pair.upstream_version, asking)
    async with pair.house({"files": fake}) as (house, _):
        host = await pair.host(house, capabilities=ELICITS, identity=BOB)
        host.on["elicitation/create"] = lambda params: YES
        result = await host.call("files__slow")
        assert json.loads(result["content"][0]["text"]) == YES
        assert len(host.asked) == 1
        assert host.asked[0]["params"]["message"] == "[files] Name?"
        assert len(tasks_of(fake, "tools/call")) == 1
        if not pair.to_legacy:
            assert len(tasks_of(fake, "tasks/update")) == 1


@pytest.mark.covers("R-4", "X-6")
async def test_a_modern_host_may_answer_in_parts(autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task.ask, "a", "elicitation/create", FORM)
            nursery.start_soon(task.ask, "b", "elicitation/create", FORM)
        task.complete(text(json.dumps(sorted(task.answers))))

    fake = TaskServer(MODERN, work)
    async with a_house({"files": fake}) as house:
        host = await house.host(version=MODERN, capabilities=ELICITS)
        params = {"name": "files__slow"}
        first = await host.result("tools/call", params)
        assert sorted(first["inputRequests"]) == ["a", "b"]
        answers = {"inputResponses": {"b": YES}, "requestState": first["requestState"]}
        second = await host.result("tools/call", {**params, **answers})
        assert sorted(second["inputRequests"]) == ["a"]
        wrong = {"inputResponses": {"a": {"action": "?"}}, "requestState": second["requestState"]}
        assert (await host.error("tools/call", {**params, **wrong}))["code"] == -32602
        answers = {"inputResponses": {"a": YES}, "requestState": second["requestState"]}
        assert (await host.result("tools/call", {**params, **answers}))["content"] == text('["a", "b"]')["content"]
        again = await host.error("tools/call", {"name": "files__echo", **answers})
        assert again["data"]["reason"] == "request_state_invalid"


async def test_a_host_that_does_not_sample_ends_the_task(autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        prompt = {"maxTokens": 9, "messages": []}
        await task.ask("s", "sampling/createMessage", prompt)

    fake = TaskServer(MODERN, work)
    async with a_house({"files": fake}) as house:
        host = await house.host(version=L4, capabilities={"sampling": {}})
        host.on["sampling/createMessage"] = lambda params: Failure(-1, "no")
        result = await host.call("files__slow")
        assert result["isError"]
        await trio.sleep(1)
        assert fake.task.status == "cancelled"


async def test_optional_tasks_are_plain_calls(autojump_clock: object) -> None:
    fake = TaskServer(L4, soon, requires=False)
    async with a_house({"files": fake}) as house:
        for version in (L4, MODERN):
            host = await house.host(version=version, capabilities=EXTENSION if version == MODERN else {})
            result = await host.call("files__slow")
            assert result["content"] == text("plain")["content"]
    assert fake.tasks == {}


@pytest.mark.covers("X-11")
async def test_what_hosts_say_of_tasks_in_a_call_is_ignored(pair: Pair, autojump_clock: object) -> None:
    fake = TaskServer(pair.upstream_version, soon)
    async with pair.house({"files": fake}) as (_, host):
        await host.result("tools/call", {"name": "files__echo", "task": {"ttl": 5}})
        assert "task" not in tasks_of(fake, "tools/call")[0]["params"]


async def test_tasks_can_be_off(autojump_clock: object) -> None:
    fakes = {"new": TaskServer(MODERN, soon), "old": TaskServer(L4, soon, requires=False)}
    fakes["rude"] = TaskServer(MODERN, soon)
    about = {"taskId": "u-1", "status": "working", **TIMES, "ttlMs": None}
    fakes["rude"].on["tools/call:slow"] = lambda message, conversation: {"resultType": "task", **about}
    fakes["odd"] = TaskServer(L4, soon, requires=False)
    fakes["odd"].on["tools/call:slow"] = lambda message, conversation: {"task": {**about, "ttl": None}}
    off = {name: {"tasks": "off"} for name in fakes}
    async with a_house(fakes, upstreams=off) as house:
        host = await house.host(version=MODERN, capabilities=EXTENSION)
        assert (await host.error("tools/call", {"name": "new__slow"}))["code"] == -32603
        assert (await host.call("rude__slow"))["isError"]
        assert (await host.call("odd__slow"))["isError"]
        assert fakes["new"].tasks == {}


# --- convert and relay ------------------------------------------------------------------------------------------------


async def begin(host: Any, **meta: Any) -> str:
    """Begin a task; its id."""
    handle = await host.result("tools/call", {"name": "files__slow"})
    assert (handle["resultType"], handle["status"]) == ("task", "working")
    assert (handle["ttlMs"], handle["pollIntervalMs"], handle["createdAt"]) == (60_000, 2_000, TIMES["createdAt"])
    assert handle["taskId"].startswith("v1."), "not the id that the upstream gave: that is sealed in it"
    return handle["taskId"]


async def look(host: Any, id: str) -> dict[str, Any]:
    task = await host.result("tasks/get", {"taskId": id})
    assert task["resultType"] == "complete"
    assert task["taskId"] == id
    return task


@pytest.fixture(params=[(carrier, version) for carrier in ("lines", "http") for version in (L4, MODERN)])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """How the host is carried, and the upstream's revision."""
    return request.param


@pytest.mark.covers("EL-1")
async def test_the_long_outcome_of_a_task_is_cut_as_any_result(place: Any, autojump_clock: object) -> None:
    lines = "\n".join(f"line {number}" for number in range(1_000))

    async def work(task: FakeTask) -> None:
        task.complete(text(lines, structuredContent={"a": 1}))

    profiles = {"all": Profile(large_results_bytes=0)}
    limit = {"files": {"large_results_bytes": 1_000}}
    async with a_house({"files": TaskServer(place[1], work)}, upstreams=limit, profiles=profiles) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        whole = await house.host(place[0], MODERN, capabilities=EXTENSION, endpoint="~all")
        id = await begin(host)
        await trio.sleep(10)
        result = (await look(host, id))["result"]
        assert "structuredContent" not in result
        shown, link = result["content"]
        assert len(shown["text"]) < 1_200
        assert lines.startswith(shown["text"].rpartition("\n")[0])
        kept = await host.result("resources/read", {"uri": link["uri"]})
        assert kept["contents"][0]["text"] == lines
        assert (await look(host, id))["result"] == result, "asked again, it is not kept again"
        assert (await look(whole, await begin(whole)))["result"]["content"] == text(lines)["content"]


@pytest.mark.covers("X-2", "X-4", "X-5", "H-4")
async def test_a_host_of_the_extension_gets_the_task_itself(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        id = await begin(host)
        task = await look(host, id)
        assert (task["status"], task["statusMessage"]) == ("working", "half of it")
        await trio.sleep(10)
        task = await look(host, id)
        assert task["status"] == "completed"
        assert task["result"]["content"] == text("at last")["content"]
        assert RELATED not in json.dumps(task)
        assert (await host.result("tasks/cancel", {"taskId": id}))["resultType"] == "complete"


@pytest.mark.covers("X-7")
async def test_only_errors_fail(place: Any, autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep(1)
        if task.id == "u-1":
            task.complete(text("quota exceeded", isError=True))
        else:
            task.fail(-32050, "broken")

    fake = TaskServer(place[1], work)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        ids = [await begin(host), (await host.call("files__slow"))["taskId"]]
        await trio.sleep(2)
        first, second = [await look(host, id) for id in ids]
        assert (first["status"], first["result"]["isError"]) == ("completed", True)
        assert (second["status"], second["error"]["code"]) == ("failed", -32603)
        assert second["error"]["data"]["upstream"]["code"] == -32050


@pytest.mark.covers("X-5", "X-6")
async def test_a_host_of_the_extension_is_asked_as_it_looks(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], asking)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities={**EXTENSION, **ELICITS})
        id = await begin(host)
        await trio.sleep(4)
        task = await look(host, id)
        assert task["status"] == "input_required"
        ((key, asked),) = task["inputRequests"].items()
        assert asked["params"]["message"] == "[files] Name?"
        assert (await look(host, id))["inputRequests"] == task["inputRequests"]
        update = {"taskId": id, "inputResponses": {key: YES, "other": YES}}
        assert (await host.result("tasks/update", update))["resultType"] == "complete"
        await trio.sleep(1)
        assert (await look(host, id))["status"] == "working"
        await trio.sleep(5)
        assert json.loads((await look(host, id))["result"]["content"][0]["text"]) == YES


@pytest.mark.covers("P-9")
async def test_a_host_of_the_extension_cancels(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        id = await begin(host)
        await host.result("tasks/cancel", {"taskId": id})
        assert (await look(host, id))["status"] == "cancelled"


@pytest.mark.covers("X-8", "E-6", "I-2")
async def test_nobody_learns_of_the_tasks_of_others(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake, "other": FakeUpstream()}) as house:
        alice = await house.host(place[0], MODERN, capabilities=EXTENSION, identity=ALICE)
        bob = await house.host(place[0], MODERN, capabilities=EXTENSION, identity=BOB)
        elsewhere = await house.host(place[0], MODERN, capabilities=EXTENSION, identity=ALICE, endpoint="other")
        id = await begin(alice)
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            errors = [await host.error(method, {"taskId": id, **more}) for host in (bob, elsewhere)]
            forged = id[:-3] + ("AAA" if id[-3:] != "AAA" else "BBB")
            wrong = ("u-1", "", forged, id + "x")
            errors += [await alice.error(method, {"taskId": each, **more}) for each in wrong]
            assert all(error == errors[0] for error in errors), errors
            assert errors[0]["code"] == -32602
        assert (await look(alice, id))["status"] == "working"
        fake.tasks.clear()
        assert await alice.error("tasks/get", {"taskId": id}) == errors[0]


NARROW = {"server": Profile(servers=("other",)), "tool": Profile(tools=("!*__slow",))}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tasks/get", {}),
    ("tasks/update", {"inputResponses": {}}),
    ("tasks/cancel", {}),
)


@pytest.mark.covers("EP-4")
@pytest.mark.parametrize("without", list(NARROW))
async def test_a_profile_without_the_server_or_the_tool_hides_its_tasks(
    place: Any, autojump_clock: object, without: str
) -> None:
    fake = TaskServer(place[1], soon)
    profiles = {"narrow": NARROW[without], "renamed": Profile(rename={"files__slow": "wait_for_it"})}
    async with a_house({"files": fake, "other": FakeUpstream()}, profiles=profiles) as house:
        alice, bound, renamed = [
            await house.host(place[0], MODERN, capabilities=EXTENSION, identity=ALICE, endpoint=endpoint)
            for endpoint in ("", "~narrow", "~renamed")
        ]
        id = await begin(alice)

        async def refuse(host: Any) -> None:
            for method, more in REQUESTS:
                hidden = await host.error(method, {"taskId": id, **more})
                assert hidden == await host.error(method, {"taskId": "u-1", **more})
            await host.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
            await trio.sleep(5)
            assert host.of("notifications/subscriptions/acknowledged")[-1]["notifications"] == {"taskIds": []}
            assert host.of("notifications/tasks") == []

        await refuse(bound)
        assert tasks_of(fake, "tasks/cancel") == []
        assert (await look(renamed, id))["status"] == "working", "it is shown, by another name"

        fake.lists["tools"] = [{"name": "echo", "inputSchema": {"type": "object"}}]
        house.hub.supervisor.upstreams["files"].mark_stale((Kind.TOOL,))
        await house.hub.lists.refresh("files", Kind.TOOL)
        await trio.sleep(5)
        assert "files__slow" not in await alice.names()
        await refuse(bound)
        for host in (alice, renamed):
            assert (await look(host, id))["status"] != "", "it is not listed any more, and goes on"


@pytest.mark.covers("EP-4", "EP-8")
async def test_who_listens_to_a_task_hears_no_more_of_it_once_a_profile_hides_its_tool(
    place: Any, autojump_clock: object
) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}, profiles={"coding": Profile(hosts=(ALICE.host,))}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION, identity=ALICE)
        id = await begin(host)
        await host.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        await trio.testing.wait_all_tasks_blocked()
        assert [each["status"] for each in host.of("notifications/tasks")] == ["working"]
        hidden = Profile(hosts=(ALICE.host,), tools=("!files__slow",))
        house.hub.apply(structs.replace(house.hub.config, profiles={"coding": hidden}))
        polls = len(tasks_of(fake, "tasks/get"))
        await trio.sleep(60)
        assert len(host.of("notifications/tasks")) == 1
        assert len(tasks_of(fake, "tasks/get")) == polls
        assert (await host.error("tasks/get", {"taskId": id}))["code"] == -32602


async def test_a_profile_that_is_no_more_shows_no_task(autojump_clock: object) -> None:
    fake = TaskServer(MODERN, soon)
    async with a_house({"files": fake}, profiles={"coding": Profile()}) as house:
        host = await house.host("lines", MODERN, capabilities=EXTENSION, identity=ALICE, endpoint="~coding")
        id = await begin(host)
        house.hub.apply(structs.replace(house.hub.config, profiles={}))
        assert (await host.error("tasks/get", {"taskId": id}))["code"] == -32602


@pytest.mark.covers("POL-02", "POL-11")
async def test_who_is_denied_a_tool_by_other_rules_has_none_of_its_tasks(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}) as house:
        alice, bob = [
            await house.host(place[0], MODERN, capabilities=EXTENSION, identity=each) for each in (ALICE, BOB)
        ]
        id, other = await begin(alice), await begin(bob)
        for host, each in ((alice, id), (bob, other)):
            await host.start("subscriptions/listen", {"notifications": {"taskIds": [each]}})
        await trio.testing.wait_all_tasks_blocked()
        denied = PolicyConfig(deny=(f"principal:{ALICE.principal} files__slow",))
        house.hub.apply(structs.replace(house.hub.config, policy=denied))
        for method, more in REQUESTS:
            hidden = await alice.error(method, {"taskId": id, **more})
            assert hidden == await alice.error(method, {"taskId": "u-1", **more})
        assert (await look(bob, other))["status"] == "working"
        await trio.sleep(60)
        assert [each["status"] for each in alice.of("notifications/tasks")] == ["working"]
        assert [each["status"] for each in bob.of("notifications/tasks")] == ["working", "completed"]


@pytest.mark.covers("E-6", "X-10", "X-13")
async def test_who_does_not_declare_the_extension_has_no_tasks(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        id = await begin(host)
        host.capabilities = {}
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            error = await host.error(method, {"taskId": id, **more})
            assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, EXTENSION)
        old = await house.host(place[0], L4)
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await old.error(method, {"taskId": id}))["code"] == -32601


async def test_a_task_ends_with_the_process_it_runs_in(autojump_clock: object) -> None:
    fake = TaskServer(L4, soon)
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", MODERN, capabilities=EXTENSION)
        id = await begin(host)
        await fake.conversation.close()
        await trio.sleep(5)
        task = await look(host, id)
        assert (task["status"], task["error"]["data"]["hub"]) == ("failed", "upstream_lost")


@pytest.mark.covers("N-12", "P-5")
async def test_a_host_of_the_extension_is_told(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], soon)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        id = await begin(host)
        stream = await host.start("subscriptions/listen", {"notifications": {"taskIds": [id, "u-1"]}})
        await trio.sleep(15)
        (acknowledged,) = host.of("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"] == {"taskIds": [id]}
        told = host.of("notifications/tasks")
        assert [each["status"] for each in told] == ["working", "completed"]
        assert told[-1]["result"]["content"] == text("at last")["content"]
        await host.cancel(stream)
        polls = len(tasks_of(fake, "tasks/get"))
        await trio.sleep(15)
        assert len(tasks_of(fake, "tasks/get")) == polls
        host.capabilities = {}
        error = await host.error("subscriptions/listen", {"notifications": {"taskIds": [id]}})
        assert error["code"] == -32021


@pytest.mark.covers("X-8", "X-9")
async def test_an_id_outlives_the_hub(autojump_clock: object) -> None:
    fake = TaskServer(MODERN, soon)
    async with a_house({"files": fake}) as house:
        id = await begin(await house.host("http", MODERN, capabilities=EXTENSION))
    fake.task.complete(text("at last"))
    async with a_house({"files": fake}) as house:
        task = await look(await house.host("http", MODERN, capabilities=EXTENSION), id)
        assert task["result"]["content"] == text("at last")["content"]


async def test_a_session_stays_open_for_its_tasks(autojump_clock: object) -> None:
    async def work(task: FakeTask) -> None:
        await trio.sleep(50)
        task.complete(text("at last"))

    fake = TaskServer(L4, work)
    settings = config({"files": {"session_mode": "per_host", "timeouts": {"session_idle": 5.0}}})
    async with a_house({"files": fake}, upstreams=settings) as house:
        host = await house.host("http", MODERN, capabilities=EXTENSION)
        id = await begin(host)
        upstream = house.hub.supervisor.upstreams["files"]
        assert len(upstream.pool) == 2
        await trio.sleep(55)
        assert (await look(host, id))["status"] == "completed"
        await trio.sleep(70)
        assert len(upstream.pool) == 1
        assert (await look(host, id))["error"]["data"]["hub"] == "upstream_lost"


async def test_a_host_that_comes_back_finds_its_task(autojump_clock: object) -> None:
    fake = TaskServer(L4, soon)
    async with a_house({"files": fake}, upstreams={"files": {"session_mode": "per_host"}}) as house:
        host = await house.host("lines", MODERN, capabilities=EXTENSION)
        id = await begin(host)
        await host.leave()
        await trio.sleep(20)
        task = await look(await house.host("lines", MODERN, capabilities=EXTENSION), id)
        assert task["result"]["content"] == text("at last")["content"]
        await trio.sleep(400)
        assert len(house.hub.supervisor.upstreams["files"].pool) == 1


async def test_answers_are_checked_before_anybody_gets_them(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], asking)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities={**EXTENSION, **ELICITS})
        id = await begin(host)
        await trio.sleep(4)
        ((key, _),) = (await look(host, id))["inputRequests"].items()
        for method in ("tasks/get", "tasks/cancel"):
            assert (await host.error(method, {}))["code"] == -32602
        if place[1] == L4:
            wrong = {"taskId": id, "inputResponses": {key: {"action": "?"}}}
            assert (await host.error("tasks/update", wrong))["code"] == -32602
        assert (await look(host, id))["status"] == "input_required"
        await host.result("tasks/cancel", {"taskId": id})


async def test_what_a_host_cannot_be_asked(place: Any, autojump_clock: object) -> None:
    fake = TaskServer(place[1], asking)
    async with a_house({"files": fake}) as house:
        host = await house.host(place[0], MODERN, capabilities=EXTENSION)
        id = await begin(host)
        await trio.sleep(4)
        if place[1] == MODERN:
            assert (await host.error("tasks/get", {"taskId": id}))["code"] == -32603
        else:
            assert (await look(host, id)).get("inputRequests", {}) == {}
            await trio.sleep(5)
            assert (await look(host, id))["result"]["content"] == text("null")["content"]
