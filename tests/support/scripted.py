"""A real MCP server process that follows a script. Standard library only.

    python scripted.py '{"era": "legacy", "on": {"tools/call:die": [["exit", 3]]}}'

The script is an object:

- `era`: "legacy" (default), "modern", or "both"; `version`: the legacy revision (2025-11-25);
- `tools`: their names (default: those that `on` mentions, and "echo");
- `start`: steps before anything is read;
- `on`: steps per method, or per `tools/call:NAME`; other requests are answered as by a good server;
- `record`: a file to which every received line is appended;
- `once`: a file; if it exists when the process starts, `on` and `start` are ignored. Steps may make it (`mark`).

Steps; the current request is the one that triggered them:
"""

import json
import os
import select
import signal
import subprocess
import sys

MODERN = "2026-07-28"
INFO = {"name": "scripted", "version": "1"}


class Server:
    """Reads lines, follows the script."""

    def __init__(self, script):
        self.script = script
        once = script.get("once")
        spent = once is not None and os.path.exists(once)
        self.on = {} if spent else script.get("on", {})
        self.start = [] if spent else script.get("start", [])
        self.era = script.get("era", "legacy")
        self.request = None
        self.told = None
        self.names = script.get("tools") or [
            "echo",
            *(key.partition(":")[2] for key in script.get("on", {}) if key.startswith("tools/call:")),
        ]

    def run(self):
        self.follow(self.start)
        for line in sys.stdin.buffer:
            if record := self.script.get("record"):
                with open(record, "ab") as file:
                    file.write(line)
            self.take(json.loads(line))

    def take(self, message):
        if "method" not in message:
            return
        self.request = message
        method = message["method"]
        name = message.get("params", {}).get("name")
        steps = self.on.get(f"{method}:{name}", self.on.get(method))
        if steps is not None:
            self.follow(steps)
        elif "id" in message:
            self.step_serve()

    def follow(self, steps):
        for name, *arguments in steps:
            getattr(self, f"step_{name}")(*arguments)

    def say(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def answer(self):
        """The answer of a good server."""
        method, params = self.request["method"], self.request.get("params", {})
        modern = self.era == "modern" or (self.era == "both" and "_meta" in params)
        complete = {"resultType": "complete"} if modern else {}
        fresh = {**complete, "ttlMs": 60_000, "cacheScope": "public"} if modern else {}
        if method == "server/discover" and self.era != "legacy":
            return {**fresh, "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "_meta": {}}
        if method == "initialize" and self.era != "modern":
            version = self.script.get("version", "2025-11-25")
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": INFO}
        if method == "tools/list":
            return {**fresh, "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.names]}
        if method == "tools/call":
            return {**complete, "content": [{"type": "text", "text": json.dumps(params)}]}
        if method in ("ping", "logging/setLevel"):
            return {}
        return None

    # --- steps ------------------------------------------------------------------------------------------------------

    def step_serve(self):
        """Answer as a good server does."""
        result = self.answer()
        if result is None:
            self.step_fail(-32601, "Method not found")
        else:
            self.step_reply(result)

    def step_reply(self, result):
        """Answer with this result."""
        self.say({"id": self.request["id"], "result": result})

    def step_fail(self, code, message, data=None):
        """Answer with this error."""
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.say({"id": self.request["id"], "error": error})

    def step_tell(self, method, params):
        """Send a notification; "$token" in it becomes the request's progress token."""
        token = self.request.get("params", {}).get("_meta", {}).get("progressToken") if self.request else None
        self.say({"method": method, "params": {k: token if v == "$token" else v for k, v in params.items()}})

    def step_ask(self, method, params):
        """Ask the hub a question and wait for the response, dropping other messages. `reply_told` follows."""
        self.say({"id": "question", "method": method, "params": params})
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.told = message.get("result", message.get("error"))
                return

    def step_reply_told(self):
        """Answer a call with the response to `ask`."""
        self.step_reply({"content": [{"type": "text", "text": json.dumps(self.told)}]})

    def step_raw(self, text):
        """Write these characters, each one byte, to stdout. "$id" becomes the id of the request."""
        id = json.dumps(self.request["id"]) if self.request and "id" in self.request else ""
        self.write(text.replace("$id", id).encode("latin-1"))

    def step_big(self, size):
        """Answer with a text of this many bytes."""
        self.step_reply({"content": [{"type": "text", "text": "x" * size}]})

    def step_flood(self, count, method, params):
        """Send a notification many times."""
        line = json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"
        for _ in range(count):
            self.write(line)

    def step_stderr(self, text, times=1):
        """Write these characters to stderr."""
        os.write(2, text.encode("latin-1") * times)

    def step_hang(self):
        """Do nothing more, but stay alive."""
        while True:
            signal.pause()

    def step_await_gone(self, file):
        """Wait until this file is gone."""
        while os.path.exists(file):
            select.select([], [], [], 0.01)

    def step_exit(self, code=0):
        """Exit at once."""
        os._exit(code)

    def step_kill(self, number=9):
        """Die of a signal."""
        os.kill(os.getpid(), number)

    def step_deafen(self):
        """Ignore SIGTERM, and the end of stdin too when `hang` follows."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def step_close_stdout(self):
        """Close standard output and go on."""
        os.close(1)

    def step_close_stdin(self):
        """Close standard input; `hang` may follow."""
        os.close(0)

    def step_fork(self, file, setsid=False, bare=False, ends=False):
        """Leave a grandchild behind that holds our pipes, ignores SIGTERM and never ends, or `ends` at once; its pid
        goes into `file`. `bare`: its environment is empty."""
        program = (
            "import os, signal, sys\n"
            "if os.fork(): os._exit(0)\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            f"{'os.setsid()' if setsid else ''}\n"
            "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
            "os.close(int(sys.argv[2]))\n"
            f"{'os._exit(0)' if ends else ''}\n"
            "while True: signal.pause()\n"
        )
        ours, theirs = os.pipe()
        argv = [sys.executable, "-I", "-S", "-c", program, file, str(theirs)]
        subprocess.run(argv, check=True, pass_fds=[theirs], env={} if bare else None)
        os.close(theirs)
        os.read(ours, 1)

    def step_mark(self, file):
        """Make a file."""
        open(file, "w").close()

    def step_environment(self):
        """Answer a call with the environment of this process."""
        self.step_reply({"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]})


__doc__ += "\n".join(
    f"- `{name[5:]}`: {step.__doc__}" for name, step in vars(Server).items() if name.startswith("step_")
)

if __name__ == "__main__":
    Server(json.loads(sys.argv[1])).run()
