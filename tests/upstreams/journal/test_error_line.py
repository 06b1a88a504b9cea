"""Which line of a process's last words names the error."""

from textwrap import dedent

import pytest

from upstreams.journal.error_line import error_line, last_words

NODE = """\
    node:internal/modules/cjs/loader:1228
      throw err;
      ^

    Error: Cannot find module '@modelcontextprotocol/sdk/server'
    Require stack:
    - /home/me/server/index.js
        at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
        at Module._load (node:internal/modules/cjs/loader:1051:27) {
      code: 'MODULE_NOT_FOUND',
      requireStack: [ '/home/me/server/index.js' ]
    }

    Node.js v20.18.1
"""
NODE_CAUSE = """\
    TypeError: fetch failed
        at node:internal/deps/undici/undici:13502:13 {
      [cause]: Error: connect ECONNREFUSED 127.0.0.1:5432
          at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16) {
        errno: -111,
      }
    }
"""
NODE_CODE = """\
    file:///srv/index.js:3
    TypeError [ERR_INVALID_ARG_TYPE]: The "path" argument must be of type string
        at Object.open (node:fs:590:10)
"""
PYTHON = """\
    Traceback (most recent call last):
      File "/srv/server.py", line 3, in <module>
        KEY = os.environ["API_KEY"]
              ~~~~~~~~~~^^^^^^^^^^^
      File "<frozen os>", line 714, in __getitem__
    KeyError: 'API_KEY'
"""
CHAINED = """\
    Traceback (most recent call last):
      File "/srv/server.py", line 3, in <module>
    FileNotFoundError: [Errno 2] No such file or directory: 'config.json'

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "/srv/server.py", line 5, in <module>
    myapp.errors.ConfigError: no configuration
"""
GROUP = """\
      + Exception Group Traceback (most recent call last):
      |   File "/srv/server.py", line 12, in main
      | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
      +-+---------------- 1 ----------------
        | Traceback (most recent call last):
        |   File "/srv/server.py", line 9, in connect
        | httpx.ConnectError: All connection attempts failed
        +------------------------------------
"""
NPM = """\
    npm error code E404
    npm error 404 Not Found - GET https://registry.example/nonexistent-package-zzz - Not found
    npm error 404
    npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log
"""
NPM_CACHE = """\
    npm error code ENOTEMPTY
    npm error syscall rename
    npm error path /home/me/.npm/_npx/1/node_modules/zod
    npm error dest /home/me/.npm/_npx/1/node_modules/.zod-x
    npm error errno -39
    npm error ENOTEMPTY: directory not empty, rename '/home/me/.npm/_npx/1/node_modules/zod'
    npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log
"""
UV = """\
    error: Failed to fetch: `https://index.example/simple/mcp-server-time/`
      Caused by: Request failed after 3 retries
      Caused by: invalid peer certificate: UnknownIssuer
"""
RUST = """\
    thread 'main' panicked at src/main.rs:4:5:
    no configuration
    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
LOGGER = """\
    [2026-11-23 10:00:00] INFO starting
    [2026-11-23 10:00:01] ERROR: token is missing
    bye
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (NODE, "Error: Cannot find module '@modelcontextprotocol/sdk/server'"),
        (NODE_CAUSE, "[cause]: Error: connect ECONNREFUSED 127.0.0.1:5432"),
        (NODE_CODE, 'TypeError [ERR_INVALID_ARG_TYPE]: The "path" argument must be of type string'),
        (PYTHON, "KeyError: 'API_KEY'"),
        (CHAINED, "myapp.errors.ConfigError: no configuration"),
        (GROUP, "| httpx.ConnectError: All connection attempts failed"),
        (NPM, "npm error 404 Not Found - GET https://registry.example/nonexistent-package-zzz - Not found"),
        (NPM_CACHE, "npm error ENOTEMPTY: directory not empty, rename '/home/me/.npm/_npx/1/node_modules/zod'"),
        (UV, "Caused by: invalid peer certificate: UnknownIssuer"),
        (RUST, "thread 'main' panicked at src/main.rs:4:5:"),
        (LOGGER, "[2026-11-23 10:00:01] ERROR: token is missing"),
        ("sh: 1: nonsense: not found\n", "sh: 1: nonsense: not found"),
        ("usage: server DIRECTORY\nDIRECTORY is required\n\n", "DIRECTORY is required"),
        ("GITHUB_TOKEN is missing\nplease set it\n", "GITHUB_TOKEN is missing"),
    ],
)
def test_the_line_that_names_the_error(said, expected):
    lines = dedent(said).splitlines()
    at = error_line(lines)
    assert at is not None
    assert lines[at].strip() == expected


@pytest.mark.parametrize("said", ["", "one\ntwo", "}\n}", "bye"])
def test_no_line_names_one(said):
    assert error_line(said.splitlines()) is None


def test_the_error_is_among_the_last_words_however_long_its_trace_is():
    trace = ["Error: boom", *(f"    at f (x.js:{number})" for number in range(50))]
    assert last_words(trace, 4) == ["Error: boom", *trace[-3:]]
    assert last_words(["a", "Error: boom", "b"], 4) == ["a", "Error: boom", "b"]
    assert last_words([], 4) == []


def test_a_flood_of_one_line_is_looked_at_in_part_only():
    assert error_line([("x " * 2_000_000) + "error"]) is None
