"""The answers that an entry was made of are found in its settings, and what was changed by hand is not guessed at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.registry.answers_in_entry import answers_in
from config.registry.entry_of_answers import entry
from config.registry.places_to_fill import Piece
from config.registry.server_json import RegistrySource, read_server
from tests.config.registry.test_examples import GOLDEN
from tests.support.registry_entries import answers_of, example, made, way_of


def typed(found):
    return {key: [piece.text for piece in pieces] for key, pieces in found.items()}


@pytest.mark.parametrize(("name", "at", "said", "settings"), GOLDEN)
def test_the_answers_of_every_example_are_found_again(name, at, said, settings):
    way = way_of(example(name), at)
    found, fits = answers_in(way, settings)
    assert fits
    defaults = {key: pieces for key, pieces in answers_of(way, said).items() if not pieces[0].typed}
    assert made_of(way, {**defaults, **found}) == settings


def made_of(way, values):
    found = entry(way, values, RegistrySource("official", "a/b", "1"))
    del found["source"]
    return found


def test_a_default_is_no_answer():
    found, fits = answers_in(way_of(example("pypi")), made(example("pypi"), {"WEATHER_API_KEY": "k"}))
    assert (typed(found), fits) == ({"WEATHER_API_KEY": ["k"]}, True)


def test_what_was_changed_by_hand_in_a_variable_is_an_answer():
    settings = made(example("filesystem"), {"target_dir": "/a"}) | {"env": {"LOG_LEVEL": "debug", "MORE": "x"}}
    found, fits = answers_in(way_of(example("filesystem")), settings)
    assert (typed(found), fits) == ({"target_dir": ["/a"], "LOG_LEVEL": ["debug"]}, True)


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["-y", "@example/server-filesystem@9.9.9", "/a"]},
        {"args": ["-y", "@example/server-filesystem@1.0.2"]},
        {"args": "x"},
        {"args": None},
        {"command": "bunx"},
    ],
)
def test_arguments_that_do_not_fit_are_not_guessed_at(change):
    settings = made(example("filesystem"), {"target_dir": "/a"}) | change
    found, fits = answers_in(way_of(example("filesystem")), settings)
    assert not fits
    assert "target_dir" not in found


def test_an_address_that_does_not_fit_is_not_guessed_at():
    way = way_of(example("tenant"))
    assert not answers_in(way, {"url": "https://other.example/mcp"})[1]
    assert not answers_in(way, {})[1]
    assert typed(answers_in(way, {"url": "https://acme.api.example.com/mcp"})[0]) == {"tenant_id": ["acme"]}


ARGUMENTS = [
    {"type": "positional", "value": "serve"},
    {"type": "named", "name": "--port", "format": "number"},
    {"type": "named", "name": "--tag", "isRepeated": True},
    {"type": "named", "name": "-q", "value": ""},
    {"type": "named", "name": "-l", "isRequired": True},
    {"type": "positional", "valueHint": "first", "isRequired": True},
    {"type": "positional", "valueHint": "more", "isRepeated": True},
    {
        "type": "positional",
        "value": "{user}@{host}",
        "variables": {"user": {"isRequired": True}, "host": {"isRequired": True}},
    },
    {"type": "positional", "value": "end"},
]
TEXT = st.text("abc/", min_size=1, max_size=4)


@given(
    st.fixed_dictionaries(
        {"l": TEXT, "first": TEXT, "user": TEXT, "host": TEXT},
        optional={
            "port": st.just("80"),
            "tag": st.lists(TEXT, min_size=1, max_size=3),
            "more": st.lists(TEXT, min_size=1, max_size=3),
        },
    )
)
def test_arguments_of_all_kinds_are_found_again(said):
    package = {"registryType": "npm", "identifier": "p", "version": "1.0.0", "transport": {"type": "stdio"}}
    server = read_server({"name": "a/b", "version": "1", "packages": [package | {"packageArguments": ARGUMENTS}]})
    found, fits = answers_in(way_of(server), made(server, said))
    assert fits
    assert typed(found) == {key: [value] if isinstance(value, str) else value for key, value in said.items()}


def test_hostile_templates_take_no_time():
    package = {"registryType": "npm", "identifier": "p", "version": "1.0.0", "transport": {"type": "stdio"}}
    arguments = [{"type": "positional", "valueHint": f"a{n}", "isRepeated": True} for n in range(60)]
    server = read_server({"name": "a/b", "version": "1", "packages": [package | {"packageArguments": arguments}]})
    way = way_of(server)
    settings = {"command": "npx", "args": ["-y", "p@1.0.0", *(["x"] * 5000)]}
    found, fits = answers_in(way, settings)
    assert fits
    assert found["a0"] == (Piece("x", typed=True),) * 5000
