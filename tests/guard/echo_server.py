"""A server over stdio that costs next to nothing: it answers each call of its one tool with the text it was given.

Revision 2025-11-25, or 2026-07-28 with the argument `modern`. It answers all requests of one read with one write.
"""

import json
import os
import sys

MODERN = sys.argv[1:] == ["modern"]
TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


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
            reply["result"] = {"tools": [TOOL]}
        case "tools/call":
            reply["result"] = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
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
