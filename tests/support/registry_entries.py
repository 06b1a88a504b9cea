"""Recorded entries of registries, and entries made of them as the command line makes them."""

import json
from pathlib import Path
from typing import Any

from config.registry.entry_of_answers import Answers, check_answer, default_of, entry
from config.registry.places_to_fill import Piece, all_asked
from config.registry.server_json import RegistrySource, ServerJson, read_server
from config.registry.ways_to_run import Way, ways_of

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "registry" / "examples.json").read_text(encoding="utf-8")
)["servers"]


def example(name: str) -> ServerJson:
    return read_server(EXAMPLES[name])


def absolute(path: str) -> str:
    return path if path.startswith("/") else f"/home/me/{path.removeprefix('~/')}"


def way_of(server: ServerJson, at: int = 0, engine: str = "docker") -> Way:
    way = ways_of(server, engine)[at]
    assert not way.why, way.why
    return way


def answers_of(way: Way, said: dict[str, str | list[str]]) -> Answers:
    """Answers as the command line has them: typed ones, then defaults."""
    values: dict[str, tuple[Piece, ...]] = {}
    for slot, asked in all_asked(way.slots):
        texts = said.get(asked.key, [])
        given = [texts] if isinstance(texts, str) else texts
        if given:
            values[asked.key] = tuple(Piece(check_answer(slot, asked, text, absolute), typed=True) for text in given)
        elif default := default_of(slot, asked, absolute):
            values[asked.key] = tuple(map(Piece, asked.defaults or (default,)))
    return values


def made(server: ServerJson, said: dict[str, str | list[str]], at: int = 0, engine: str = "docker") -> dict[str, Any]:
    """The settings that come of a server and answers."""
    way = way_of(server, at, engine)
    found = entry(way, answers_of(way, said), RegistrySource("official", server.name, server.version))
    assert found.pop("source") == f"official:{server.name}@{server.version}"
    return found
