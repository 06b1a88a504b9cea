"""A hub with servers as people have them, some of which are not well: for tests of what shows it, and its pictures.

github answers in 30 to 200 ms and has one tool that always fails, files answers at once, notes is slow, db cannot
start, mail lacks a variable. The lists are in files beside, so that tests change a definition and restart the server.
As a program this is one of these servers: `showcase.py FILE`.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

HOSTILE = "<img src=x onerror=document.title='owned'> a\u202eb\u200b\U000e0041"
OBJECT = {"type": "object"}


def tool(name: str, about: str, wait_s: float = 0.0, /, *, fails: bool = False, **arguments: str) -> dict[str, Any]:
    """A tool that takes texts; `wait_s` and `fails` say how it answers."""
    properties = {each: {"type": "string", "description": its} for each, its in arguments.items()}
    schema = OBJECT | {"properties": properties, "required": [*arguments][:1]}
    return {"name": name, "description": about, "inputSchema": schema, "_wait": wait_s, "_fails": fails}


OFFERS = {
    "github": [
        tool("search_code", "Search code in all repositories", 0.12, query="Words and qualifiers, as on the page"),
        tool("create_issue", "Create a new issue in a GitHub repository", 0.2, title="Its title", body="Its text"),
        tool("list_issues", "List issues of a repository", 0.06, repo="Owner and name"),
        tool("merge_pull_request", "Merge a pull request", 0.03, number="Its number"),
        tool("get_workflow", "Get the last run of a workflow", 0.03, fails=True, name="Its name"),
    ],
    "files": [
        tool("read_file", "Read a file as text", path="Its path below the allowed folders"),
        tool("write_file", "Write a file", path="Its path", text="What it is to hold"),
        tool("list_directory", "List the entries of a folder", path="Its path"),
    ],
    "notes": [tool("find", "Find notes by words", 0.3, words="Words"), tool("odd", HOSTILE)],
}
DB = "echo 'could not connect to server: Connection refused (db.internal:5432)' >&2; exit 1"


def configure(directory: Path) -> str:
    """The text of hubd.toml; the lists of its servers are written into `directory`."""
    tables = ["[policy]", "ask = ['github__merge_pull_request']", "[approvals]", "wait_s = 2"]
    for name, tools in OFFERS.items():
        offer(directory, name, tools)
        args = [__file__, str(directory / f"{name}.json")]
        tables += [f"[upstreams.{name}]", f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(args)}"]
    tables += ["[upstreams.db]", "command = 'sh'", f"args = ['-c', {json.dumps(DB)}]"]
    tables += ["[upstreams.mail]", "command = 'mail-server'", "env = { MAIL_TOKEN = '${MAIL_TOKEN}' }"]
    return "\n".join([*tables, ""])


def offer(directory: Path, name: str, tools: list[dict[str, Any]]) -> None:
    """Have a server list these tools from its next start on."""
    (directory / f"{name}.json").write_text(json.dumps(tools))


def rounds(number: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Calls as hosts make them: a visible name, and arguments."""
    plain = [
        *("files__read_file", "github__search_code", "files__list_directory", "github__list_issues"),
        *("files__read_file", "github__create_issue", "files__write_file", "notes__find"),
    ]
    for at in range(number):
        name = "github__get_workflow" if at % 11 == 10 else plain[at % len(plain)]
        yield name, {"path": "src/main.py", "query": "x", "title": "x", "repo": "a/b", "words": "x", "name": "ci"}


def main(path: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        tools = json.loads(Path(path).read_text())
        match message["method"]:
            case "initialize":
                about = {"name": Path(path).stem, "version": "1"}
                answer = {
                    "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
                }
            case "tools/list":
                answer = {"result": {"tools": [{key: each[key] for key in each if key[0] != "_"} for each in tools]}}
            case "tools/call":
                called = next(each for each in tools if each["name"] == message["params"]["name"])
                Event().wait(called["_wait"])
                answer = {"result": {"content": [{"type": "text", "text": "done"}], "isError": called["_fails"]}}
            case "ping":
                answer = {"result": {}}
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
