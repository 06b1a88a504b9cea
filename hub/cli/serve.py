"""`hubd serve`: the hub in the foreground."""

import argparse
from pathlib import Path
from typing import Any

from config.diagnostics import Problem
from config.loading.parse_addresses import split_listen
from hub.cli.context import Context, Output, UsageError
from hub.cli.parser import add
from hub.daemon.serve import run_serve
from hub.daemon.served_configuration import ServeOptions


def add_commands(commands: Any) -> None:
    """`serve`."""
    serve = add(commands, "serve", _serve)
    serve.description = (
        "Run the hub in the foreground, until Ctrl-C or `hubd stop`. Without a configuration it serves a small demo."
    )
    serve.add_value("--config", "FILE", "a hubd.toml, or any host's .json of MCP servers", type=Path)
    text = "address for HTTP, in place of the configured one (127.0.0.1:8765); port 0 takes any free port"
    serve.add_value("--listen", "HOST:PORT", text)
    text = "who is let in over HTTP, whatever is configured: those with the hub's token (token); also those whom the "
    text += "issuers (oauth) or the proxy (proxy) of [access] let in; or all (none)"
    serve.add_argument("--auth", choices=("token", "oauth", "proxy", "none"), help=text)
    serve.add_flag("--detached", argparse.SUPPRESS)
    serve.add_flag("--stdio", "serve the program that started this, on standard input and output")
    text = "with --stdio: show that program what [profiles.NAME] of the configuration shows"
    serve.add_value("--profile", "NAME", text)


def _serve(options: Context, output: Output) -> None:
    if options.listen is not None:
        try:
            split_listen(options.listen)
        except Problem as problem:
            raise UsageError(f"--listen: {problem}") from None
    if options.profile is not None and not options.stdio:
        text = "--profile goes with --stdio; the hosts of this hub name theirs in `hubd connect --profile NAME`, or in "
        raise UsageError(text + "the URL /mcp/~NAME")

    named = ("config", "listen", "auth", "stdio", "profile", "detached")
    output.exit_with(run_serve(ServeOptions(**{name: getattr(options, name) for name in named})))
