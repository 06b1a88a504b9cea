"""The product keeps to its budget, and to its shape."""

import tomllib
from pathlib import Path

import pytest

from tests.guard.house import House, measure

BUDGET = tomllib.loads((Path(__file__).parents[1] / "data" / "house.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def house() -> House:
    return measure()


def test_the_product_is_no_larger_than_its_budget(house: House) -> None:
    assert sum(house.code.values()) <= BUDGET["code"]
    assert len(house.code) <= BUDGET["files"]
    assert house.lines <= BUDGET["lines"]


def test_no_room_is_crowded(house: House) -> None:
    assert {room: len(modules) for room, modules in house.rooms().items() if len(modules) > BUDGET["room"]} == {}


def test_names_say_deeds_and_things(house: House) -> None:
    assert len(house.participles) <= BUDGET["participles"], "\n".join(house.participles)
    assert sum(number > 1 for number in house.classes.values()) <= BUDGET["twice"]


def test_modules_import_each_other_in_no_circle(house: House) -> None:
    assert house.circle() == []
