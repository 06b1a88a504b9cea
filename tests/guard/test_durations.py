"""The table of seconds per module, and the comparison with it."""

import tomllib

from tests.support.durations import TABLE, is_there, merge, slower, written


def test_what_takes_longer_is_named_the_worst_first():
    table = {"test": {"a": 100.0, "b": 10.0, "c": 1.0}, "everything": {"d": 1.0}}
    found = {"test": {"a": 130.0, "b": 20.0, "c": 2.5, "new": 50.0}, "everything": {}}
    assert slower(table, found) == [
        "the tests of [test] took 152 s, not 111",
        "a took 130.0 s, not 100.0",
        "b took 20.0 s, not 10.0",
    ]
    assert slower(table, {"test": {"a": 115.0, "b": 13.0}, "everything": {"d": 3.0}}) == []


def test_a_part_that_was_run_takes_the_place_of_what_the_table_had():
    here = str(TABLE.relative_to(TABLE.parents[2]))
    table = merge({"test": {here: 1.0}, "everything": {here: 2.0}}, {"test": {here: 3.0, "tests/gone.py": 1.0}})
    assert table["everything"] == {here: 2.0}
    assert tomllib.loads(written(table)) == {"test": {here: 3.0}, "everything": {here: 2.0}, "alone": {}}


def test_the_table_names_what_is_there():
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    assert set(table) == {"test", "everything", "alone"}
    assert [name for modules in table.values() for name in modules if not is_there(name)] == []
