"""A real MCP server process that offers what a file says, as it is when it is asked. Standard library only.

    python changing_server.py FILE

The file is JSON: `tools`, `prompts`, and `instructions`. A call of a tool answers with its name, or with what the
program in its argument `run` says and how it ends.
"""

import json
import subprocess
import sys


def result(message, offer):
    """The result of a request; None: it is not known."""
    match message["method"]:
        case "initialize":
            about = {"name": "changing", "version": "1"}
            capabilities = {"tools": {}, "prompts": {}}
            said = {"instructions": offer["instructions"]} if offer.get("instructions") else {}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about, **said}
        case "tools/list":
            return {"tools": offer.get("tools", [])}
        case "prompts/list":
            return {"prompts": offer.get("prompts", [])}
        case "tools/call":
            text = message["params"]["name"]
            if argv := message["params"].get("arguments", {}).get("run"):
                done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
                text = f"{done.returncode} {done.stdout}{done.stderr}"
            return {"content": [{"type": "text", "text": text}]}
        case "ping":
            return {}
    return None


def main(path):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        with open(path, encoding="utf-8") as file:
            found = result(message, json.load(file))
        known = {"error": {"code": -32601, "message": "Method not found"}} if found is None else {"result": found}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **known}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
