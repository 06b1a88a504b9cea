"""A server over stdio that costs next to nothing: it answers each call with the text it was given, `times` over.

Revision 2025-11-25, or 2026-07-28 with the argument `modern`. It answers all requests of one read with one write, and
has one tool, or a hundred with the argument `hundred`.
"""

import json
import os
import sys

MODERN = "modern" in sys.argv
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
TOOLS = [TOOL]
if "hundred" in sys.argv:
    TOOLS += [{**TOOL, "name": f"tool_{number}", "description": "x" * 560} for number in range(1, 100)]


def answer(line: bytes) -> bytes:
    message = json.loads(line)
    if "id" not in message:
        return b""
    params = message.get("params", {})
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            capabilities = {"tools": {}}
            info = {"name": "echo", "version": "1"}
            version = params["protocolVersion"]
            reply["result"] = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            reply["result"] = {"tools": TOOLS}
        case "tools/call":
            arguments = params["arguments"]
            text = arguments["text"] * arguments.get("times", 1)
            reply["result"] = {"content": [{"type": "text", "text": text}]}
        case "ping":
            reply["result"] = {}
        case _:
            reply["error"] = {"code": -32601, "message": "no such method"}
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"


def main() -> None:
    rest = b""
    while data := os.read(0, 1 << 20):
        *lines, rest = (rest + data).split(b"\n")
        os.write(1, b"".join(map(answer, lines)))


if __name__ == "__main__":
    main()
