"""`hubd cache`: show the resource cache, or clear it."""

import argparse
from typing import Any

from hub.cli.subcommand import EX_OK, add, as_json, client


def add_commands(commands: Any) -> None:
    """`cache` and `cache clear`."""
    cache = add(commands, "cache", _cache, "what is kept of resources, how it is used, why it was dropped", json=True)
    actions = cache.add_subparsers(title="commands", metavar="COMMAND", prog="hubd cache")
    clear = add(actions, "clear", _clear, "forget what was read of one server, or of all; it is read anew", json=True)
    clear.add_argument("name", metavar="UPSTREAM", nargs="?", help="its name as `hubd status` shows it; else all")


def _cache(options: argparse.Namespace) -> int:
    from hub.cli.render.cache import cache
    from hub.control.methods import CACHE, read

    with client() as hub:
        answer = hub.answer(CACHE)
    print(as_json(answer) if options.json else cache(read(CACHE, answer)))
    return EX_OK


def _clear(options: argparse.Namespace) -> int:
    from hub.control.methods import CACHE_CLEAR

    with client() as hub:
        cleared = hub.ask(CACHE_CLEAR, name=options.name).cleared
    if options.json:
        print(as_json({"cleared": cleared, "upstream": options.name}))
    else:
        whose = f" of {options.name}" if options.name else ""
        print(f"forgotten: {cleared} {'resource' if cleared == 1 else 'resources'}{whose}")
    return EX_OK
