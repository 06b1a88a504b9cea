"""A real MCP server process that people share: it asks, has tasks, changes resources, and knows no person from another.

    python shared_server.py legacy|modern

Tools: `ask` asks for a form and tells the answer; `touch` says that the resource `uri` has changed; `slow` is a task
(modern). Resources: `ERA://NAME`, `alice`, `bob` and `public`; each read tells how many there were. The last one is for
all (modern), the others are private. Standard library only.
"""

import json
import sys

MODERN = sys.argv[1] == "modern"
FORM = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
EXTENSION = {"io.modelcontextprotocol/tasks": {}}
TIMES = {"createdAt": "2026-11-01T10:00:00Z", "lastUpdatedAt": "2026-11-01T10:02:00Z"}
TASK = {"taskId": "t-1", "status": "working", "ttlMs": None, "pollIntervalMs": 1000, **TIMES}
NAMES = ("ask", "touch", "slow") if MODERN else ("ask", "touch")
SCHEME = sys.argv[1]
URIS = tuple(f"{SCHEME}://{name}" for name in ("alice", "bob", "public"))

reads = 0


def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def ask(params):
    """Ask in the way of the era; the result of the call."""
    if MODERN:
        if "inputResponses" not in params:
            request = {"method": "elicitation/create", "params": FORM}
            return {"resultType": "input_required", "inputRequests": {"q": request}, "requestState": "s"}
        return text(json.dumps(params["inputResponses"]["q"]))
    say(id="q", method="elicitation/create", params=FORM)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "q":
            return text(json.dumps(message.get("result", message.get("error"))))
    raise SystemExit


def touch(params):
    uri = params["arguments"]["uri"]
    if not MODERN:
        say(method="notifications/resources/updated", params={"uri": uri})
    return text("touched")


def read(params):
    global reads
    reads += 1
    scope = "public" if params["uri"].endswith("public") else "private"
    return {
        "contents": [{"uri": params["uri"], "text": f"read {reads}"}],
        **({"ttlMs": 600_000, "cacheScope": scope} if MODERN else {}),
    }


def result(method, params):
    """The result of a request; None: there is no such method."""
    lists = {"ttlMs": 600_000, "cacheScope": "public"} if MODERN else {}
    match method:
        case "server/discover" if MODERN:
            capabilities = {"tools": {}, "resources": {}, "extensions": EXTENSION}
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": {}, **lists}
        case "initialize" if not MODERN:
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            info = {"name": "shared", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES], **lists}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri.partition("//")[2]} for uri in URIS], **lists}
        case "resources/templates/list":
            return {"resourceTemplates": [], **lists}
        case "resources/read":
            return read(params)
        case "tools/call":
            if params["name"] == "slow":
                return {"resultType": "task", **TASK}
            return (ask if params["name"] == "ask" else touch)(params)
        case "tasks/get" | "tasks/cancel" if MODERN:
            return TASK
        case "ping" | "resources/subscribe" | "resources/unsubscribe":
            return {}
    return None


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        found = result(message["method"], message.get("params", {}))
        if found is None:
            say(id=message["id"], error={"code": -32601, "message": "no such method"})
        else:
            say(id=message["id"], result={"resultType": "complete", **found} if MODERN else found)


if __name__ == "__main__":
    main()
