"""The demo server itself: a line in, lines out, time as an argument. It does no I/O."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, field

from hub.wire import jsonrpc, mcp
from upstreams.demo.content import COMPLETIONS, INSTRUCTIONS, PROMPTS, RESOURCES, SURPRISE, TEMPLATES, TOOLS, WELCOME

Json = dict[str, Any]

TTL_MS: Final = 60_000
"""Time that modern clients may keep a list; nothing in it changes but by `touch`, which says so."""
INFO: Final = {"name": "hubd-demo", "title": "hubd demo", "version": mcp.HUBD_VERSION}
CAPABILITIES: Final = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
FACTS: Final[Json] = {"capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}
"""What clients of either era are told at first."""
CLOCK_S: Final = 5.0
"""Interval at which subscribers hear that the clock resource changed."""
GREETING: Final = "demo://greeting/"


class DemoRefusal(Exception):
    """Answer this request with an error."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.failure = jsonrpc.Failure(code, message, data if data is UNSET else jsonrpc.raw(data))


class Call(Struct, frozen=True):
    """One request. `modern`: its era."""

    id: jsonrpc.RequestId
    params: Json
    meta: Json
    modern: bool
    now: float

    def object(self, key: str) -> Json:
        """The object among the params; empty if it is absent. Raises DemoRefusal: it is something else."""
        if not isinstance(value := self.params.get(key, {}), dict):
            raise DemoRefusal(mcp.INVALID_PARAMS, f"{key} is an object")
        return value


def read_call(request: jsonrpc.Request, now: float) -> Call:
    """The request with its metadata read. Raises DemoRefusal: params that cannot be read, or modern metadata that is
    incomplete or of an unknown revision."""
    try:
        params: Json = msgspec.json.decode(jsonrpc.raw(request.params))
    except msgspec.DecodeError as error:
        raise DemoRefusal(mcp.INVALID_PARAMS, f"params hold what the demo server cannot read: {error}") from None
    meta = params.pop("_meta", None)
    meta = meta if isinstance(meta, dict) else {}
    if (version := meta.get(mcp.VERSION_KEY)) is not None and version not in mcp.MODERN_VERSIONS:
        data = {"supported": mcp.ALL_VERSIONS, "requested": version}
        raise DemoRefusal(mcp.UNSUPPORTED_VERSION, f"The demo server does not speak revision {version}", data)
    if version is not None and not isinstance(meta.get(mcp.CLIENT_CAPABILITIES_KEY), dict):
        raise DemoRefusal(mcp.INVALID_PARAMS, f"_meta lacks {mcp.CLIENT_CAPABILITIES_KEY}")
    return Call(request.id, params, meta, version is not None, now)


def cacheable(call: Call, result: Json, *, ttl_ms: int = TTL_MS) -> Json:
    """A result that modern clients may keep: it carries for how long, and that everybody gets the same."""
    return {**result, "ttlMs": ttl_ms, "cacheScope": "public"} if call.modern else result


def text_result(text: str) -> Json:
    """The result of a tool that has one text to say."""
    return {"content": [{"type": "text", "text": text}]}


def mistake(text: str) -> Json:
    """A tool's own failure: a result for the model to act on, not a protocol error."""
    return {**text_result(text), "isError": True}


class NoArguments(Struct):
    """The arguments of a tool that takes none."""


class Text(Struct):
    """The arguments of `echo`."""

    text: str


class Summands(Struct):
    """The arguments of `add`."""

    a: int | float
    b: int | float


class Steps(Struct):
    """The arguments of `countdown`."""

    start: Annotated[int, Meta(ge=1, le=100)] = field(default=5, name="from")
    pause_s: Annotated[float, Meta(ge=0, le=10)] = 1


class Countdown(Struct):
    """A `countdown` call under way."""

    call: Call
    steps: Steps
    left: int
    due: float


class Demo:
    """The server without its pipes. `wall` tells the time of day, as text."""

    def __init__(self, wall: Callable[[], str]) -> None:
        self._wall = wall
        self._out: list[bytes] = []
        self._legacy: Json | None = None
        """What a legacy client hears of; None: it has not said `initialize`."""
        self._subscribed: set[str] = set()
        self._log_level = "warning"
        self._touched = 0
        self._countdowns: dict[jsonrpc.RequestId, Countdown] = {}
        self._listens: dict[jsonrpc.RequestId, Json] = {}
        """What each stream of a modern client hears of."""
        self._clock_due = math.inf

    # --- in and out ---------------------------------------------------------------------------------------------------

    def receive(self, line: bytes, now: float) -> list[bytes]:
        """The answers to one message of the client."""
        try:
            message = jsonrpc.decode(line)
        except jsonrpc.RemoteProtocolError as error:
            return [jsonrpc.encode_response(error.id, error.failure)]
        if isinstance(message, jsonrpc.Request):
            self._answer(message, now)
        elif isinstance(message, jsonrpc.Notification) and message.method == mcp.CANCELLED:
            self._cancel(message.params.get("requestId"))
        return self._flush()

    def _cancel(self, raw_id: Raw | None) -> None:
        """Forget a running request; it is never answered. An id that means nothing is ignored."""
        for running in (self._countdowns, self._listens):
            for id in [id for id in running if raw_id is not None and jsonrpc.encode(id) == bytes(raw_id)]:
                del running[id]

    def due(self) -> float:
        """Time at which `tick` has something to do."""
        return min([self._clock_due, *(running.due for running in self._countdowns.values())])

    def tick(self, now: float) -> list[bytes]:
        """The messages that are due because time has passed."""
        for running in [running for running in self._countdowns.values() if running.due <= now]:
            self._count(running, now)
        if self._clock_due <= now:
            watched = self._updated("demo://clock")
            self._clock_due = now + CLOCK_S if watched else math.inf
        return self._flush()

    def _flush(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def _notify(self, method: str, params: Json) -> None:
        written = {key: jsonrpc.raw(value) for key, value in params.items()}
        self._out.append(jsonrpc.encode_notification(method, written))

    def _reply(self, call: Call, result: Json) -> None:
        if call.modern:
            result = {"resultType": "complete", **result}
            result["_meta"] = {mcp.SERVER_INFO_KEY: INFO, **result.get("_meta", {})}
        self._out.append(jsonrpc.encode_response(call.id, jsonrpc.Result(jsonrpc.raw(result))))

    def _log(self, call: Call, level: str, text: str) -> None:
        """To whoever wants it: modern clients say so in the request, legacy ones once for all."""
        wanted = call.meta.get(mcp.LOG_LEVEL_KEY) if call.modern else self._log_level
        if wanted in mcp.LOG_LEVELS and mcp.LOG_LEVELS.index(level) >= mcp.LOG_LEVELS.index(wanted):
            self._notify(mcp.MESSAGE, {"level": level, "logger": "demo", "data": text})

    # --- requests -----------------------------------------------------------------------------------------------------

    def _answer(self, request: jsonrpc.Request, now: float) -> None:
        try:
            call = read_call(request, now)
            handler = (MODERN_METHODS if call.modern else LEGACY_METHODS).get(request.method)
            if handler is None:
                raise DemoRefusal(mcp.METHOD_NOT_FOUND, f"The demo server has no method {request.method}")
            if not call.modern and self._legacy is None and request.method not in (mcp.INITIALIZE, mcp.PING):
                raise DemoRefusal(mcp.INVALID_REQUEST, "Say initialize first")
            result = handler(self, call)
        except DemoRefusal as refused:
            self._out.append(jsonrpc.encode_response(request.id, refused.failure))
            return
        if result is not None:
            self._reply(call, result)

    def _initialize(self, call: Call) -> Json:
        self._subscribed.clear()
        self._legacy = {"resourcesListChanged": True, "resourceSubscriptions": self._subscribed}
        requested = call.params.get("protocolVersion")
        version = requested if requested in mcp.LEGACY_VERSIONS else mcp.L4
        return {"protocolVersion": version, "serverInfo": INFO, **FACTS}

    def _discover(self, call: Call) -> Json:
        return cacheable(call, {"supportedVersions": mcp.ALL_VERSIONS, **FACTS})

    def _change_level(self, call: Call) -> Json:
        if (level := call.params.get("level")) not in mcp.LOG_LEVELS:
            raise DemoRefusal(mcp.INVALID_PARAMS, f"level is one of {', '.join(mcp.LOG_LEVELS)}")
        self._log_level = level
        return {}

    def _list_resources(self, call: Call) -> Json:
        return cacheable(call, {"resources": [*RESOURCES, SURPRISE] if self._touched % 2 else RESOURCES})

    def _read(self, call: Call) -> Json:
        uri = call.params.get("uri")
        texts = {
            "demo://welcome": WELCOME,
            "demo://clock": self._wall(),
            "demo://counter": jsonrpc.encode({"touched": self._touched}).decode(),
        }
        if self._touched % 2:
            texts[SURPRISE["uri"]] = "You touched the counter an odd number of times. Touch it again and I am gone."
        if not isinstance(uri, str):
            raise DemoRefusal(mcp.INVALID_PARAMS, "uri is a string")
        if uri.startswith(GREETING):
            texts[uri] = f"Hello, {unquote(uri.removeprefix(GREETING)) or 'stranger'}! hubd carried this to you."
        if uri not in texts:
            code = mcp.INVALID_PARAMS if call.modern else mcp.RESOURCE_NOT_FOUND
            raise DemoRefusal(code, "The demo server has no such resource", {"uri": uri})
        kind = next((entry["mimeType"] for entry in RESOURCES if entry["uri"] == uri), "text/plain")
        return cacheable(call, {"contents": [{"uri": uri, "mimeType": kind, "text": texts[uri]}]}, ttl_ms=0)

    def _get_prompt(self, call: Call) -> Json:
        name, arguments = call.params.get("name"), call.object("arguments")
        if name == "tour":
            text = "Show me around this MCP hub: list its tools, try the demo ones, and read demo://welcome."
        elif name == "explain":
            if not isinstance(topic := arguments.get("topic"), str):
                raise DemoRefusal(mcp.INVALID_PARAMS, "The prompt explain needs the argument topic")
            text = f"Explain {topic} to somebody who has never heard of it, in three sentences."
        else:
            raise DemoRefusal(mcp.INVALID_PARAMS, f"The demo server has no prompt {name}")
        description = next(entry["description"] for entry in PROMPTS if entry["name"] == name)
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": description, "messages": [message]}

    def _complete(self, call: Call) -> Json:
        ref, argument = call.object("ref"), call.object("argument")
        options = COMPLETIONS.get((str(ref.get("name") or ref.get("uri")), str(argument.get("name"))))
        if options is None:
            raise DemoRefusal(mcp.INVALID_PARAMS, "The demo server completes nothing of that name")
        begun = str(argument.get("value", "")).casefold()
        values = [option for option in options if option.casefold().startswith(begun)]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, call: Call) -> Json:
        self._subscribed.add(str(call.params.get("uri")))
        self._wind(call)
        return {}

    def _unsubscribe(self, call: Call) -> Json:
        self._subscribed.discard(str(call.params.get("uri")))
        return {}

    def _listen(self, call: Call) -> None:
        wanted = call.object("notifications")
        honoured = {key: wanted[key] for key in ("resourcesListChanged", "resourceSubscriptions") if wanted.get(key)}
        self._listens[call.id] = honoured
        self._notify(mcp.ACKNOWLEDGED, {"_meta": {mcp.SUBSCRIPTION_KEY: call.id}, "notifications": honoured})
        self._wind(call)

    def _wind(self, call: Call) -> None:
        self._clock_due = min(self._clock_due, call.now + CLOCK_S)

    def _tell(self, method: str, params: Json, is_wanted: Callable[[Json], bool]) -> bool:
        """Tell all who want to hear of it; whether anybody does."""
        told = [{"_meta": {mcp.SUBSCRIPTION_KEY: id}} for id, wanted in self._listens.items() if is_wanted(wanted)]
        told += [{}] if self._legacy is not None and is_wanted(self._legacy) else []
        for meta in told:
            self._notify(method, {**params, **meta})
        return bool(told)

    def _updated(self, uri: str) -> bool:
        return self._tell(mcp.UPDATED, {"uri": uri}, lambda wanted: uri in wanted.get("resourceSubscriptions", ()))

    # --- tools --------------------------------------------------------------------------------------------------------

    def _call_tool(self, call: Call) -> Json | None:
        if not isinstance(name := call.params.get("name"), str) or name not in TOOL_METHODS:
            raise DemoRefusal(mcp.INVALID_PARAMS, f"The demo server has no tool {name}")
        kind, tool = TOOL_METHODS[name]
        try:
            return tool(self, call, msgspec.convert(call.object("arguments"), kind))
        except msgspec.ValidationError as error:
            return mistake(NEEDS.get(name, f"{name} cannot do that: {error}"))

    def _add(self, call: Call, given: Summands) -> Json:
        total = given.a + given.b
        return {**text_result(f"{given.a} + {given.b} = {total}"), "structuredContent": {"sum": total}}

    def _fail(self, call: Call, given: NoArguments) -> Json:
        self._log(call, "error", "the tool fail was called, so it failed")
        return mistake("This tool always fails, so that you can see how failures look. Nothing is broken.")

    def _touch(self, call: Call, given: NoArguments) -> Json:
        self._touched += 1
        self._log(call, "info", f"the counter stands at {self._touched}")
        self._updated("demo://counter")
        changed = "notifications/resources/list_changed"
        self._tell(changed, {}, lambda wanted: bool(wanted.get("resourcesListChanged")))
        return text_result(f"demo://counter is now {self._touched}, and a resource came or went")

    def _countdown(self, call: Call, steps: Steps) -> None:
        self._countdowns[call.id] = Countdown(call, steps, steps.start, call.now + steps.pause_s)
        self._log(call, "info", f"counting down from {steps.start}")

    def _count(self, running: Countdown, now: float) -> None:
        call, start = running.call, running.steps.start
        running.left -= 1
        running.due = now + running.steps.pause_s
        if (token := call.meta.get(mcp.PROGRESS_TOKEN)) is not None:
            progress = {"progress": start - running.left, "total": start, "message": f"{running.left} to go"}
            self._notify(mcp.PROGRESS, {mcp.PROGRESS_TOKEN: token, **progress})
        if running.left <= 0:
            del self._countdowns[call.id]
            self._reply(call, text_result(f"Counted down from {start}. Lift-off!"))


NEEDS: Final = {
    "echo": "echo needs text, a string",
    "add": "add needs a and b, two numbers",
    "countdown": "countdown takes from (a whole number, 1 to 100) and pause_s (seconds, 0 to 10)",
}
"""What is said of other arguments."""
TOOL_METHODS: Final[dict[str, tuple[type, Callable[[Demo, Call, Any], Json | None]]]] = {
    "echo": (Text, lambda demo, call, given: text_result(given.text)),
    "add": (Summands, Demo._add),
    "now": (NoArguments, lambda demo, call, given: text_result(demo._wall())),
    "countdown": (Steps, Demo._countdown),
    "touch": (NoArguments, Demo._touch),
    "fail": (NoArguments, Demo._fail),
}
_COMMON: Final[dict[str, Callable[[Demo, Call], Json | None]]] = {
    mcp.TOOLS_LIST: lambda demo, call: cacheable(call, {"tools": TOOLS}),
    mcp.TOOLS_CALL: Demo._call_tool,
    mcp.PROMPTS_LIST: lambda demo, call: cacheable(call, {"prompts": PROMPTS}),
    mcp.PROMPTS_GET: Demo._get_prompt,
    mcp.RESOURCES_LIST: Demo._list_resources,
    mcp.TEMPLATES_LIST: lambda demo, call: cacheable(call, {"resourceTemplates": TEMPLATES}),
    mcp.RESOURCES_READ: Demo._read,
    mcp.COMPLETE: Demo._complete,
}
MODERN_METHODS: Final = {**_COMMON, mcp.DISCOVER: Demo._discover, mcp.LISTEN: Demo._listen}
LEGACY_METHODS: Final = {
    **_COMMON,
    mcp.INITIALIZE: Demo._initialize,
    mcp.PING: lambda demo, call: {},
    mcp.SET_LEVEL: Demo._change_level,
    mcp.SUBSCRIBE: Demo._subscribe,
    mcp.UNSUBSCRIBE: Demo._unsubscribe,
}
