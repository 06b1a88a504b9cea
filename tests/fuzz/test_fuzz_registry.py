"""Damaged answers of registries: each makes an entry, is refused or is passed over, and no other error is raised.

`HUBD_FUZZ` is the number of inputs (`make fuzz`: 10 000).
"""

import json
import os

from config.loading.variables import Variables
from config.registry.answers_in_entry import answers_in
from config.registry.entry_of_answers import about, check_answer, default_of, entry, words_without_answers
from config.registry.places_to_fill import NotRunnable, Piece, all_asked
from config.registry.server_json import RegistrySource, Unreadable, read_page
from config.registry.ways_to_run import ways_of
from tests.fuzz.mutation import damaged
from tests.support.registry_entries import EXAMPLES, absolute
from upstreams.fetch.strict_json import read_json_object

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
OFFICIAL = {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": True}}
PAGES = [
    json.dumps({"servers": [{"server": each, "_meta": OFFICIAL}], "metadata": {"nextCursor": "x", "count": 1}}).encode()
    for each in EXAMPLES.values()
]
PROGRAMS = {"npx", "uvx", "docker", "podman"}


def answers_for(way):
    values = {}
    for slot, asked in all_asked(way.slots):
        about(asked)
        text = default_of(slot, asked, absolute)
        for candidate in ("/x", "1", "true", *asked.input.choices):
            try:
                text = text or check_answer(slot, asked, candidate, absolute)
            except ValueError:
                continue
        if text:
            values[asked.key] = (Piece(text),)
    return values


def test_pages(tmp_path):
    plain = Variables({}, tmp_path)
    made = 0
    for data in damaged(PAGES, COUNT):
        found = read_json_object(data)
        if found is None:
            continue
        try:
            page = read_page(found)
        except Unreadable:
            continue
        for listed in page.servers:
            source = RegistrySource("official", listed.server.name, listed.server.version)
            for way in ways_of(listed.server):
                if way.why or way.kind == "mcpb":  # a bundle says what runs once it is there
                    continue
                words_without_answers(way)
                try:
                    settings = entry(way, answers_for(way), source)
                except NotRunnable:
                    continue
                answers_in(way, settings)
                assert settings.get("command", "npx") in PROGRAMS
                for text in [*settings.get("args", ()), *settings.get("env", {}).values(), settings.get("url", "")]:
                    assert "\0" not in plain.expand_for_server(text), "raises for a variable, marks a secret"
                    assert text.isprintable()
                made += 1
    assert made > COUNT / 20
