"""The hosts of test_flows.py, whatever their SDK: they run every flow with every upstream, and report its events.

The one argument is JSON: how to connect, as in common.py, `flows`: a list of `[flow, upstream, scheme]`, and `via`: the
hub's own tool by which all others are called, "" if they are called by their names. Printed is one JSON object: the
agreed revision, and the events of each flow, in the same order.

Hosts run at the same time and take turns by locks on files whose names begin with `turns`: over a pipe that hosts share
a log message is passed on only while one of them is served, since it does not say whose it is.
"""

import fcntl

import anyio
from common import LIMIT_S, Host, plain

FLOW_S = 45
LATE_S = 2
"""Seconds by which log messages of a call may follow its result: SDKs handle both in separate tasks."""
ALONE, TOGETHER = fcntl.LOCK_EX, fcntl.LOCK_SH
MODEL = {"role": "assistant", "model": "m-1", "stopReason": "endTurn", "content": {"type": "text", "text": "hello"}}
USE = {
    "role": "assistant",
    "model": "m-1",
    "stopReason": "toolUse",
    "content": [
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": "u-1", "name": "weather", "input": {"city": "Ulm"}},
    ],
}


class Flows(Host):
    """One client. Subclasses connect, and adapt to their SDK.

    `asked` holds the questions of the running flow, `told` the notifications of all, both as on the wire.
    """

    def __init__(self, plan):
        super().__init__(plan)
        self.asked = []
        self.told = []
        self.news = anyio.Event()
        self.root = "file:///work/one"

    # --- what servers want of a host ----------------------------------------------------------------------------------

    def sampled(self, params):
        """The answer of the model; it uses a tool if it may."""
        self.asked.append({"sampling": params})
        return USE if "tools" in params else MODEL

    def elicited(self, params):
        """The answer of the user, which the question contains."""
        self.asked.append({"elicitation": params})
        if params.get("mode") == "url":
            return {"action": "accept"}
        text = params["message"]
        action = next((action for action in ("decline", "cancel") if action in text), None)
        if action:
            return {"action": action}
        fields = params["requestedSchema"]["properties"]
        if "interpretation" in fields:
            return {"action": "accept", "content": {"interpretation": fields["interpretation"]["oneOf"][0]["const"]}}
        return {"action": "accept", "content": {"name": f"Ada({text[-6:]})"}}

    def rooted(self):
        self.asked.append({"roots": {}})
        return {"roots": [{"uri": self.root, "name": "work"}]}

    def hear(self, message):
        """Record a notification."""
        self.told.append(message)
        self.wake()

    async def on_log(self, params):
        await super().on_log(params)
        self.wake()

    def wake(self):
        news, self.news = self.news, anyio.Event()
        news.set()

    async def heard(self, method, since, wanted=lambda params: True):
        """The params of the first notification of that kind after the first `since` ones."""
        while True:
            news = self.news
            for each in self.told[since:]:
                if each["method"] == method and wanted(each.get("params", {})):
                    return each.get("params", {})
            await news.wait()

    # --- all flows ----------------------------------------------------------------------------------------------------

    async def walk(self, client, version):
        seen = []
        for flow, upstream, scheme in self.plan["flows"]:
            self.asked, self.progress, self.logs = [], [], []
            async with await anyio.open_file(self.plan["turns"] + upstream, "a") as turns:
                await anyio.to_thread.run_sync(fcntl.flock, turns.wrapped, ALONE if flow == "logging" else TOGETHER)
                try:
                    with anyio.fail_after(FLOW_S):
                        saw = await getattr(self, flow)(client, upstream, scheme)
                except Exception as error:  # noqa: BLE001 (a host reports whatever its SDK raises)
                    saw = {"error": f"{type(error).__name__}: {self.words(error)}"}
            seen.append({**saw, "asked": self.asked} if self.asked else saw)
        return {"version": version, "seen": seen}

    def words(self, error):
        """The text of an error, with all errors inside it."""
        within = getattr(error, "exceptions", ())
        return "; ".join([str(error), *(f"{type(each).__name__}: {self.words(each)}" for each in within)])

    async def tool(self, client, upstream, tool, /, **arguments):
        """The text of a tool's result."""
        name, arguments = self.way_to(f"{upstream}__{tool}", arguments)
        result = plain(await client.call_tool(name, arguments, progress_callback=self.on_progress))
        return {"text": result["content"][0]["text"]} | ({"isError": True} if result.get("isError") else {})

    def way_to(self, name, arguments):
        """The name and arguments by which a tool is called: its own or, with `via`, those of the hub's own tool."""
        via = self.plan.get("via")
        return (via, {"name": name, "arguments": arguments}) if via else (name, arguments)

    async def sampling(self, client, upstream, scheme):
        return await self.tool(client, upstream, "sample", text="what")

    async def sampling_tools(self, client, upstream, scheme):
        return await self.tool(client, upstream, "sample_tools", text="what")

    async def elicitation_accept(self, client, upstream, scheme):
        return await self.tool(client, upstream, "elicit", text="Who are you?")

    async def elicitation_decline(self, client, upstream, scheme):
        return await self.tool(client, upstream, "elicit", text="You decline?")

    async def elicitation_cancel(self, client, upstream, scheme):
        return await self.tool(client, upstream, "elicit", text="You cancel?")

    async def elicitation_url(self, client, upstream, scheme):
        return await self.tool(client, upstream, "elicit_url")

    async def url_required(self, client, upstream, scheme):
        return await self.tool(client, upstream, "visit", key=f"{self.plan['name']}-{upstream}")

    async def roots(self, client, upstream, scheme):
        return await self.tool(client, upstream, "roots")

    async def roots_aside(self, client, upstream, scheme):
        return await self.tool(client, upstream, "roots_aside")

    async def roots_changed(self, client, upstream, scheme):
        await self.tool(client, upstream, "roots")
        self.root = f"file:///work/{scheme}"
        await self.tell_roots(client)
        return await self.tool(client, upstream, "roots")

    async def two_questions(self, client, upstream, scheme):
        return await self.tool(client, upstream, "both")

    async def two_rounds(self, client, upstream, scheme):
        return await self.tool(client, upstream, "twice")

    async def prompt_asks(self, client, upstream, scheme):
        got = plain(await client.get_prompt(f"{upstream}__brief"))
        return {"text": got["messages"][0]["content"]["text"]}

    async def subscription(self, client, upstream, scheme):
        uri = f"{scheme}://board"
        async with self.watching(client, uri) as next_update:
            await self.tool(client, upstream, "touch")
            return {"uri": await next_update()}

    async def list_changed(self, client, upstream, scheme):
        name = f"grown_{self.plan['name']}_{scheme}"
        shown = f"{upstream}__{name}"
        names = await self.tool_names(client)
        async with self.watching_tools(client) as next_change:
            await self.tool(client, upstream, "grow", name=name)
            before, after = shown in names, False
            while not after:
                await next_change()
                after = shown in await self.tool_names(client)
        return {"before": before, "after": after, **await self.tool(client, upstream, name)}

    async def tool_names(self, client):
        return {tool.name for tool in (await client.list_tools()).tools}

    async def progressing(self, client, upstream, scheme):
        saw = await self.tool(client, upstream, "progress", steps=3)
        return {**saw, "progress": self.progress}

    async def cancellation(self, client, upstream, scheme):
        key = f"{self.plan['name']}-{upstream}"
        await self.cancel_call(client, *self.way_to(f"{upstream}__wait", {"key": key}))
        return await self.tool(client, upstream, "cancelled", key=key)

    async def logging(self, client, upstream, scheme):
        text = f"of {upstream}"
        saw = await self.tool(client, upstream, "log", text=text)
        with anyio.move_on_after(LATE_S):
            while text not in str(self.logs[1:]):
                await self.news.wait()
        return {**saw, "logs": self.logs}

    async def completion(self, client, upstream, scheme):
        ref = self.types.PromptReference(type="ref/prompt", name=f"{upstream}__greet")
        return {"values": (await client.complete(ref, {"name": "name", "value": "A"})).completion.values}

    async def task(self, client, upstream, scheme):
        return await self.tool(client, upstream, "task")

    async def task_asks(self, client, upstream, scheme):
        return await self.tool(client, upstream, "task_asks")

    async def apps(self, client, upstream, scheme):
        tools = plain(await client.list_tools())["tools"]
        meta = next(tool["_meta"] for tool in tools if tool["name"] == f"{upstream}__clock")
        read = plain(await client.read_resource(self.uri(meta["ui"]["resourceUri"])))["contents"][0]
        links = {meta["ui"]["resourceUri"], meta["ui/resourceUri"], read["uri"]}
        shown = {"mime": read["mimeType"], "ui": read["_meta"]["ui"], "page": read["text"]}
        return {"links": sorted(links), **shown, **await self.tool(client, upstream, "clock")}

    # --- with the tools of npm's server-everything --------------------------------------------------------------------

    async def npm_sampling(self, client, upstream, scheme):
        return await self.tool(client, upstream, "trigger-sampling-request", prompt="what", maxTokens=50)

    async def npm_elicitation(self, client, upstream, scheme):
        return await self.tool(client, upstream, "trigger-elicitation-request")

    async def npm_url(self, client, upstream, scheme):
        url = "https://example.com/sign-in"
        return await self.tool(client, upstream, "trigger-url-elicitation", url=url, message="Sign in")

    async def npm_task(self, client, upstream, scheme):
        return await self.tool(client, upstream, "simulate-research-query", topic="python", ambiguous=True)


assert FLOW_S < LIMIT_S
