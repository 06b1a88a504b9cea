"""Upstreams that follow the script in a call, and hosts that answer questions at random.

All messages of a call carry its marker, `HOST/NUMBER`: notifications, questions and answers. So a message in the wrong
place shows where it belongs.
"""

import json
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import trio

from hub.wire.jsonrpc import Failure
from hub.wire.mcp import Era
from tests.simulation.reading import Shelf
from tests.support.fakes import Conversation
from tests.support.house import JudgedHost, Question

QUESTIONS = {"form": "elicitation/create", "sample": "sampling/createMessage", "roots": "roots/list"}
STEPS = ("progress", "progress", "log", "late", "nap", "nap", *QUESTIONS, *QUESTIONS)
LATE_S = 50.0
"""Seconds for which an upstream may still speak of a call that was answered."""
CAPABILITIES = {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}
SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}


def owner(marker: str) -> str:
    """The host a marker belongs to."""
    return marker.partition("/")[0]


def params_of(step: str, marker: str) -> dict[str, Any]:
    """The params of an upstream's question for `marker`."""
    if step == "form":
        return {"message": f"Who? {marker}", "requestedSchema": SCHEMA}
    if step == "sample":
        return {"maxTokens": 1, "messages": [{"role": "user", "content": {"type": "text", "text": marker}}]}
    return {}


def who_answered(step: str, answer: dict[str, Any]) -> str | None:
    """The host that gave an answer; None: no host did."""
    if step == "form":
        return answer["content"]["who"] if answer["action"] == "accept" else None
    if step == "sample":
        return answer["content"]["text"]
    return next((root["uri"].removeprefix("file:///").partition("/")[0] for root in answer["roots"]), None)


class Player(Shelf):
    """An upstream with a tool that follows its arguments: `marker`, and `script`, a list of `STEPS`."""

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.uris = [f"{name}:{number}" for number in range(3)]
        super().__init__(version=version, tools=["work"], resources=[{"uri": uri, "name": uri} for uri in self.uris])
        self.begun: Counter[str] = Counter()
        """The number of repetitions of each call."""
        self.background: trio.Nursery | None = None
        """The nursery in which it continues answered calls; None: it does not."""
        self.crossings: list[str] = []
        """Answers of hosts that were not asked, and calls of hosts in sessions with the roots of others."""
        self.refusals: list[tuple[str, str]] = []
        """Questions that were refused: the call that they are for, and why."""
        self.roots: dict[Conversation, str] = {}
        """The root in each session that was asked for roots when it began, or when these changed."""
        self.on["tools/call"] = self.work
        self.on["notifications/initialized"] = self.begin
        self.on["notifications/roots/list_changed"] = self.learn

    async def begin(self, message: dict[str, Any], conversation: Conversation) -> None:
        """Ask for roots in some of the sessions that declare them."""
        declared = conversation.of("initialize")[-1]["params"]["capabilities"]
        if "roots" in declared and self.dice.random() < 0.5:
            await self.learn(message, conversation)

    async def learn(self, message: dict[str, Any], conversation: Conversation) -> None:
        response = await conversation.ask("roots/list")
        for root in response.get("result", {}).get("roots", ()):
            self.roots[conversation] = root["uri"]

    async def work(self, message: dict[str, Any], conversation: Conversation) -> Any:
        params = message["params"]
        marker, script = params["arguments"]["marker"], params["arguments"]["script"]
        who = (
            who_answered("roots", {"roots": [{"uri": self.roots[conversation]}]})
            if conversation in self.roots
            else None
        )
        if who not in (None, owner(marker)):
            self.crossings.append(f"{marker} came to the session with the roots of {who}")
        at = 0
        if "requestState" in params:
            at, step = json.loads(params["requestState"])
            self.take(step, marker, params["inputResponses"].get("k"))
        else:
            self.begun[marker] += 1
        for number, step in enumerate(script[at:], at + 1):
            if step not in QUESTIONS:
                await self.play(step, marker, number, params.get("_meta", {}).get("progressToken"), conversation)
            elif self.era is Era.LEGACY:
                response = await conversation.ask(QUESTIONS[step], params_of(step, marker))
                if "error" in response:
                    self.refusals.append((marker, response["error"]["message"]))
                self.take(step, marker, response.get("result"))
            else:
                asked = {"method": QUESTIONS[step], "params": params_of(step, marker)}
                if step == "form":
                    asked["params"]["mode"] = "form"
                kept = json.dumps([number, step])
                return {"resultType": "input_required", "inputRequests": {"k": asked}, "requestState": kept}
        whole = {"resultType": "complete"} if self.era is Era.MODERN else {}
        return {**whole, "content": [{"type": "text", "text": marker}]}

    async def play(self, step: str, marker: str, number: int, token: Any, conversation: Conversation) -> None:
        """Take the steps that need no answer."""
        if step == "nap":
            await trio.sleep(0.01 * number)
        elif step == "log":
            await conversation.tell("notifications/message", {"level": "error", "data": marker})
        elif step == "late" and self.background is not None:
            self.background.start_soon(self.mutter, marker, conversation)
        elif step == "die":
            await conversation.close()
        elif step == "progress" and token is not None:
            about = {"progressToken": token, "progress": number, "message": marker}
            await conversation.tell("notifications/progress", about)

    async def mutter(self, marker: str, conversation: Conversation) -> None:
        """Keep sending messages of a call, even after its end."""
        for _ in range(3):
            await trio.sleep(self.dice.uniform(0, LATE_S / 3))
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await conversation.tell("notifications/message", {"level": "error", "data": marker})
                if self.era is Era.LEGACY and not conversation.over:
                    response = await conversation.ask(QUESTIONS["form"], params_of("form", marker))
                    self.take("form", marker, response.get("result"))

    async def tell_all(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification over every open connection."""
        for conversation in self.conversations:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await conversation.tell(method, params)

    async def grow(self) -> None:
        """Add a tool."""
        tools = self.lists["tools"]
        tools.append({**tools[0], "name": f"tool{len(tools)}"})
        await self.tell_all("notifications/tools/list_changed")

    def take(self, step: str, marker: str, answer: dict[str, Any] | None) -> None:
        """Check which host's answer it is."""
        who = who_answered(step, answer) if answer else None
        if who not in (None, owner(marker)):
            self.crossings.append(f"{marker} was answered by {who}: {answer}")


class Person:
    """A person at a host, who answers questions, or does not, as `dice` fall."""

    def __init__(self, label: str, host: JudgedHost, dice: Random) -> None:
        """`label`: of the program, which may have several hosts."""
        self.label = label
        self.root = f"file:///{label}"
        self.host = host
        self.dice = dice
        self.gone = False
        self.watched: set[str] = set()
        """All URIs that it ever subscribed to, as the hub shows them."""
        self.told: set[str] = set()
        """The subscriptions that the hub accepted."""
        host.answer = self.answer  # type: ignore[method-assign]
        host.on = {
            "elicitation/create": self.fill_in,
            "sampling/createMessage": self.sample,
            "roots/list": lambda params: {"roots": [{"uri": self.root}]},
        }

    def __repr__(self) -> str:
        return f"<{self.label}: {self.host!r}>"

    async def answer(self, request: dict[str, Any]) -> None:
        """Answer a question that came as a request; now and then twice, or with another host's id as well."""
        reply = await self.host.reply_to(request)
        said: dict[str, Any] = {"result": reply}
        if isinstance(reply, Failure):
            said = {"error": {"code": reply.code, "message": reply.message}}
        ids = [request["id"]] * self.dice.choice((1, 1, 1, 2, 3))
        if self.dice.random() < 0.2:
            ids.insert(self.dice.randrange(len(ids) + 1), f"hub-{self.dice.randint(1000, 1010)}")
        for id in ids:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.host.send({"jsonrpc": "2.0", "id": id, **said}, None)

    async def watch(self, uri: str) -> None:
        """Subscribe to a resource, for as long as this host is there."""
        self.watched.add(uri)
        if self.host.era is Era.LEGACY:
            answer = await self.host.ask("resources/subscribe", {"uri": uri})
            if "result" in answer and uri in self.watched:
                self.told.add(uri)
        else:
            await self.host.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})

    async def unwatch(self, uri: str) -> None:
        """Unsubscribe from a resource."""
        self.told.discard(uri)
        if self.host.era is Era.LEGACY:
            await self.host.result("resources/unsubscribe", {"uri": uri})

    def updates(self, uri: str) -> int:
        """The number of notifications of a resource."""
        return sum(params["uri"] == uri for params in self.host.of("notifications/resources/updated"))

    async def fill_in(self, params: dict[str, Any]) -> Any:
        return await self.think({"action": "accept", "content": {"who": self.label}}, {"action": "decline"})

    async def sample(self, params: dict[str, Any]) -> Any:
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": self.label}}
        return await self.think(said, Failure(-1, "rejected"))

    async def think(self, answer: Any, refusal: Any) -> Any:
        """Answer at once or later, refuse, answer nonsense, or never return."""
        mood = self.dice.choice(("now", "now", "later", "later", "refuse", "nonsense", "never"))
        if mood == "later":
            await trio.sleep(self.dice.uniform(0, 3))
        elif mood == "never":
            await trio.sleep_forever()
        return {"refuse": refusal, "nonsense": {"action": 7, "content": 8}}.get(mood, answer)

    def misplaced(self) -> list[str]:
        """Notifications and questions that belong to another host."""
        found = [str(message["params"]) for message in self.host.heard if self.is_foreign(message)]
        updated = self.host.of("notifications/resources/updated")
        found += [str(params) for params in updated if params["uri"] not in self.watched]
        found += [str(asked) for asked in self.host.asked if asked["method"] == "roots/list" and not self.has_roots]
        return found + [str(asked) for asked in self.host.asked if self.is_foreign(asked)]

    @property
    def has_roots(self) -> bool:
        return "roots" in self.host.capabilities

    def is_foreign(self, message: dict[str, Any]) -> bool:
        params = message.get("params", {})
        markers = [str(params.get(name, "")).rpartition(" ")[2] for name in ("message", "data") if name in params]
        markers += [each["content"]["text"] for each in params.get("messages", ()) if "text" in each["content"]]
        return any("/" in marker and owner(marker) != self.label for marker in markers)


class Errand:
    """One call of a host, through all its rounds."""

    def __init__(self, person: Person, upstream: str, marker: str, script: list[str]) -> None:
        self.person = person
        self.upstream = upstream
        self.marker = marker
        self.script = script
        self.question: Question | None = None
        self.tool = f"{upstream}__work"
        self.cancelled = False
        self.over_at: float | None = None
        """Time at which nobody waited for it any more."""
        self.cut = False
        """Whether the hub, and so the connection, ended."""
        self.results: list[dict[str, Any]] = []
        """Final responses; there may be only one."""
        self.stale: list[dict[str, Any]] = []
        """The params of earlier retries."""

    def __repr__(self) -> str:
        return f"<{self.marker} at {self.upstream}: {' '.join(self.script)}>"

    @property
    def is_open(self) -> bool:
        return not (self.results or self.cancelled or self.cut or self.person.gone)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the hub, and not for its person."""
        return self.is_open and self.question is not None and not self.question.done.is_set()

    async def run(self) -> None:
        """Call, and retry with answers as long as the hub asks questions."""
        host = self.person.host
        call = {"name": self.tool, "arguments": {"marker": self.marker, "script": self.script}}
        params: dict[str, Any] = call
        while True:
            self.question = await host.start("tools/call", params, token=self.marker)
            response = await self.question.wait()
            if response.get("result", {}).get("resultType") != "input_required":
                self.results.append(response)
                return
            params = await host.fulfil(call, response["result"])
            if self.person.dice.random() < 0.2:  # nobody asked
                params["inputResponses"]["q99"] = {"action": "accept", "content": {"who": "nobody"}}
            if self.person.dice.random() < 0.2 and self.stale:
                await self.replay()
            self.stale.append(params)

    async def replay(self) -> None:
        """Send a retry once more; it must not count twice."""
        again = await self.person.host.ask("tools/call", self.stale[-1])
        if "error" not in again and not again["result"].get("isError") and again["result"]["resultType"] == "complete":
            self.results.append(again)
