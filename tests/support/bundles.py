"""Bundles for tests: made by hand, with what no honest tool would put into one."""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

SERVER = '''\
"""A server of the handshake era with one tool, which tells its arguments and variables."""
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result, method = {}, asked["method"]
    if method == "initialize":
        info = {"name": "bundled", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        told = {"args": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "version": VERSION}
        result = {"content": [{"type": "text", "text": json.dumps(told)}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "?"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
'''
NODE_SERVER = """\
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const asked = JSON.parse(line);
  if (asked.id === undefined) return;
  const say = (rest) => console.log(JSON.stringify({ jsonrpc: "2.0", id: asked.id, ...rest }));
  const serverInfo = { name: "bundled", version: "1" };
  if (asked.method === "initialize")
    say({ result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo } });
  else if (asked.method === "tools/list")
    say({ result: { tools: [{ name: "tell", inputSchema: { type: "object" } }] } });
  else if (asked.method === "tools/call") {
    const told = { args: process.argv.slice(2), env: process.env, cwd: process.cwd(), version: "1" };
    say({ result: { content: [{ type: "text", text: JSON.stringify(told) }] } });
  } else say({ error: { code: -32601, message: "?" } });
});
"""


def python_server(version: str = "1") -> str:
    return f'VERSION = "{version}"\n{SERVER}'


def manifest(**changes: Any) -> dict[str, Any]:
    """A manifest of a Python bundle, with some members changed, or left out if they are None."""
    launch = {"command": "python", "args": ["${__dirname}/server/main.py"]}
    found = {
        "manifest_version": "0.3",
        "name": "bundled-notes",
        "version": "1.0.0",
        "description": "Keeps notes",
        "author": {"name": "Somebody"},
        "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": launch},
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def bundle(
    manifest: Mapping[str, Any] | bytes, files: Mapping[str | zipfile.ZipInfo, str | bytes] | None = None
) -> bytes:
    """The bytes of a bundle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", manifest if isinstance(manifest, bytes) else json.dumps(manifest))
        for name, content in (files if files is not None else {"server/main.py": python_server()}).items():
            archive.writestr(name, content)
    return out.getvalue()
