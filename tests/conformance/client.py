"""The hub as the client that the suite's client scenarios judge: client.py URL, scenario in MCP_CONFORMANCE_SCENARIO.

It puts a hub in front of the suite's server and, as a host of that hub, plays the client of the scenario. So the server
sees the requests of the hub.
"""

import base64
import json
import os
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.processes import running_hub

VERSION = "2026-07-28"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
LIMIT_S = 60


class Host:
    """The plainest modern host: one request at a time, its answer as JSON or as a stream."""

    def __init__(self, url: str, *able: str) -> None:
        self.url = url
        self.able = {capability: {} for capability in able}
        self.schemas: dict[str, dict[str, Any]] = {}
        """The schemas of tools, by name; they say which arguments headers mirror."""
        self.between: tuple[str, ...] = ()
        """Tools to call before questions are answered."""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; returns the result, or the whole message if it is an error. Forms are accepted unchanged."""
        result = self._request(method, params)
        while result.get("resultType") == "input_required":
            for name in self.between:
                self.call(name, {})
            questions = result["inputRequests"].items()
            answers = {key: accept(question["params"]["requestedSchema"]) for key, question in questions}
            again = {"inputResponses": answers}
            if "requestState" in result:
                again["requestState"] = result["requestState"]
            result = self._request(method, params | again)
        return result

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        prefix = "io.modelcontextprotocol/"
        params = params | {"_meta": {prefix + "protocolVersion": VERSION, prefix + "clientCapabilities": self.able}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
        }
        if method in NAMED:
            headers["Mcp-Name"] = params[NAMED[method]]
        if method == "tools/call":
            headers |= repeated(self.schemas.get(params["name"], {}), params["arguments"])
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.url, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        message = json.loads(lines[-1] if lines else text)
        result = message.get("result", message)
        self.schemas |= {tool["name"]: tool["inputSchema"] for tool in result.get("tools", ())}
        return result

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.ask("tools/call", name=name, arguments=arguments)


def repeated(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """The headers that mirror arguments, where the schema says so (SEP-2243)."""
    headers = {}
    for name, field in schema.get("properties", {}).items():
        value = arguments.get(name)
        if isinstance(value, dict):
            headers |= repeated(field, value)
        elif value is not None and "x-mcp-header" in field:
            text = value if isinstance(value, str) else json.dumps(value)
            plain = text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?")
            wrapped = f"=?base64?{base64.b64encode(text.encode()).decode()}?="
            headers[f"Mcp-Param-{field['x-mcp-header']}"] = text if plain else wrapped
    return headers


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a tool's schema would accept, roughly."""
    examples = {"string": "text", "integer": 5, "number": 5, "boolean": True, "object": {}, "array": [], "null": None}
    found = {name: examples.get(entry.get("type"), "text") for name, entry in schema.get("properties", {}).items()}
    return {name: value for name, value in found.items() if name in schema.get("required", found)}


def accept(schema: dict[str, Any]) -> dict[str, Any]:
    """The answer of a user who accepts a form unchanged."""
    fields = schema["properties"].items()
    return {"action": "accept", "content": {name: field["default"] for name, field in fields if "default" in field}}


def act(host: Host, scenario: str) -> None:
    """Play the client of the scenario."""
    tools = {tool["name"]: tool for tool in host.ask("tools/list")["tools"]}
    if scenario == "http-custom-headers":
        for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
            host.call(call["name"], call["arguments"])
        return
    if scenario == "json-schema-2020-12-preservation":
        schema = tools["json_schema_2020_12_tool"]["inputSchema"]
        host.call("json_schema_echo", {"schema": schema})
        return
    if scenario == "sep-2322-client-request-state":
        host.between = ("test_mrtr_unrelated",)
    for name, tool in tools.items():
        host.call(name, sample(tool["inputSchema"]))
    for resource in host.ask("resources/list").get("resources", []):
        host.ask("resources/read", uri=resource["uri"])
    for prompt in host.ask("prompts/list").get("prompts", []):
        host.ask("prompts/get", name=prompt["name"], arguments={})


def main() -> None:
    config = f'[upstreams.suite]\nurl = {json.dumps(sys.argv[-1])}\nprefix = ""\n'
    with tempfile.TemporaryDirectory(prefix="hubd-client-") as scratch:
        with running_hub(Path(scratch), config, auth="none", forked=False) as hub:
            act(Host(hub.url, "elicitation"), os.environ["MCP_CONFORMANCE_SCENARIO"])
        sys.stderr.write(hub.process.tail())


if __name__ == "__main__":
    main()
