"""Commands that are package runners, and those that are none."""

import pytest

from upstreams.cold_start.recognise_runner import is_failure_of_npm, recognise

MEMORY = "15b07286cbcc3329"
"""The folder in which npm installs `@modelcontextprotocol/server-memory`."""


@pytest.mark.parametrize(
    ("command", "runner", "key"),
    [
        ("npx -y @modelcontextprotocol/server-memory", "npx", "npx @modelcontextprotocol/server-memory"),
        ("/usr/local/bin/npx @a/b@1.2.3 --port 3", "npx", "npx @a/b"),
        ("npx --yes --package=foo@latest bar", "npx", "npx foo"),
        ("npx -p foo -p bar -c baz", "npx", "npx bar foo"),
        ("npx --registry https://example.org/ -- foo", "npx", "npx foo"),
        ("npm exec -y foo@2", "npm exec", "npx foo"),
        ("npm --silent x foo", "npm exec", "npx foo"),
        ("bunx --bun foo@1", "bunx", "bunx foo"),
        ("bun x foo", "bunx", "bunx foo"),
        ("pnpm dlx foo@1", "pnpm dlx", "pnpm dlx foo"),
        ("pnpm --silent dlx --package=foo bar", "pnpm dlx", "pnpm dlx foo"),
        ("yarn dlx -q foo", "yarn dlx", "yarn dlx foo"),
        ("uvx mcp-server-fetch", "uvx", "uv mcp-server-fetch"),
        ("uvx --from mcp-server-fetch==1.2 fetch", "uvx", "uv mcp-server-fetch"),
        ("uvx --python 3.12 mcp-server-fetch@latest", "uvx", "uv mcp-server-fetch"),
        ("uvx --from git+https://github.com/a/b tool", "uvx", "uv git+https://github.com/a/b"),
        ("uv tool run --quiet mcp-server-fetch[extra]", "uv tool run", "uv mcp-server-fetch"),
        ("uv --directory /srv/a run server.py", "uv run", "uv run server.py /srv/a"),
        ("uv run --directory /srv/a --with mcp server", "uv run", "uv run server /srv/a"),
        ("pipx run --spec foo==1 bar", "pipx run", "pipx run foo"),
        ("pipx run foo", "pipx run", "pipx run foo"),
        ("docker run -i --rm -e TOKEN --mount type=bind,src=/,dst=/x mcp/git:1", "docker run", "docker run mcp/git:1"),
        (
            "docker --context far container run -i --rm ghcr.io/a/b@sha256:0",
            "docker run",
            "docker run ghcr.io/a/b@sha256:0",
        ),
        ("podman run -i img", "podman run", "podman run img"),
        ("deno run -A --unstable npm:foo", "deno run", "deno run npm:foo"),
        ("env -u X A=1 npx foo", "npx", "npx foo"),
        ("/usr/bin/env npx foo", "npx", "npx foo"),
        ("env -i PATH=/bin sh -c 'exec npx foo'", "npx", "npx foo"),
        ("env -S 'npx -y foo'", "npx", "npx foo"),
        ("bash -lc 'cd /srv && A=1 npx -y foo --x \"a b\"'", "npx", "npx foo"),
        ("sh -c 'uvx foo'", "uvx", "uv foo"),
        ("sh -c 'npx -y @a/b@1.2 x:y'", "npx", "npx @a/b"),
    ],
)
def test_package_runners_are_recognised(command, runner, key):
    run = recognise(*split(command))
    assert (run.runner, run.key) == (runner, key)


@pytest.mark.parametrize(
    "command",
    [
        "node server.js",
        "npm start",
        "npm run npx",
        "uv pip install x",
        "uv tool install x",
        "docker compose up",
        "docker exec -i box server",
        "docker ps",
        "deno task x",
        "python -m npx",
        "sh start.sh npx foo",
        "sh -c 'npx foo | tee log'",
        "sh -c 'npx foo; sleep 9'",
        "sh -c 'npx foo & npx bar'",
        "sh -c 'npx foo&'",
        "sh -c 'npx $(cat package)'",
        "sh -c 'npx \"foo'",
        "sh -c",
        "sh",
        "env",
        "env -u",
        "env -S",
        "env A=1",
        "env env env env env npx foo",
        "my-npx foo",
    ],
)
def test_other_commands_are_none(command):
    assert recognise(*split(command)) is None


@pytest.mark.parametrize("command", ["npx", "npx -y", "npx -p", "uvx --from", "docker run -e", "npx --", "deno run"])
def test_a_runner_without_a_package_is_one_all_the_same(command):
    assert recognise(*split(command)).npx_folder == ""


def test_a_url_is_none():
    assert recognise(None, ()) is None


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("npx -y @modelcontextprotocol/server-memory", MEMORY),
        ("npm exec @modelcontextprotocol/server-memory", MEMORY),
        ("npx --package @modelcontextprotocol/server-memory x", MEMORY),
        ("npx ./here", ""),
        ("npx -p a -p b c", ""),
        ("uvx @modelcontextprotocol/server-memory", ""),
    ],
)
def test_the_folder_of_npx_is_known_where_it_depends_on_nothing_else(command, folder):
    assert recognise(*split(command)).npx_folder == folder


def test_npm_says_itself_that_it_failed():
    assert is_failure_of_npm("npm error code E404\nnpm error 404 Not Found")
    assert is_failure_of_npm("x\nnpm ERR! code E404")
    assert not is_failure_of_npm("npm warn deprecated\nError: npm error")


def split(command):
    import shlex

    first, *rest = shlex.split(command)
    return first, rest
